// The tokens of the console: who has one, and which role it gives.
#pragma once

#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "console/route.h"
#include "core/clock.h"
#include "dovetail/result.h"

namespace dovetail::console {

struct Token {
  Role role = Role::nobody;
  std::string name;
  std::string secret;
};

// The text of a tokens file. rejected: a line is wrong; the error says which, and never what is in
// it.
Result<std::vector<Token>> parse_tokens(std::string_view text, std::string_view file);
// unavailable: the file cannot be read. rejected: others than its owner and its group may read it,
// or it is wrong.
Result<std::vector<Token>> load_tokens(const std::filesystem::path& file);

// Any thread.
class Tokens {
 public:
  // Replaces all.
  void set(std::vector<Token> tokens);
  // Whose token it is. Takes the same time whichever of them it is, or if it is none.
  std::optional<Identity> find(std::string_view secret) const;

  // A sign-in lasts so long. It ends at once when the token is no longer there.
  static constexpr auto kSessionHolds = std::chrono::hours(24);
  // What a browser keeps instead of the token: name, end and a keyed digest of both. It survives
  // a restart of the daemon. None: there is no such token.
  std::optional<std::string> open_session(std::string_view secret, WallTime now) const;
  std::optional<Identity> find_session(std::string_view session, WallTime now) const;

 private:
  struct Known {
    Token token;
    std::string digest;
  };
  mutable std::mutex mutex_;
  std::vector<Known> all_;
};

// Reads the file again when it has changed. One thread.
class TokensFile {
 public:
  TokensFile(std::filesystem::path file, Tokens& tokens);

  Status load();
  // Cheap; to be called again and again. An error is given once, and the tokens that were good
  // before stay.
  Status follow(TimePoint now);

 private:
  std::string state() const;  // differs when the file was changed

  const std::filesystem::path file_;
  Tokens& tokens_;
  std::string seen_;
  TimePoint look_at_{};
};

}  // namespace dovetail::console

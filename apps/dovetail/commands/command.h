// What all commands share: their context, their answer, and the exit codes for scripts.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

#include "config/config.h"
#include "dovetail/result.h"

namespace dovetail::app {

// Exit codes. Scripts rely on them; --help and docs/CLI.md list them.
enum class Exit : int {
  ok = 0,
  negative = 1,  // a promise is broken, or the answer is no
  usage = 2,
  config = 3,
  unavailable = 4,  // locked, full, read-only, unreachable: try again later
  rejected = 5,     // the input is wrong: retrying does not help
  corrupt = 6,      // stored data is damaged, or a newer version wrote it
};

std::string_view to_string(Exit code);

struct Failure {
  Exit exit;
  std::string text;
};

template <class T>
using Expected = tl::expected<T, Failure>;
using Answer = Expected<Exit>;

inline tl::unexpected<Failure> refuse(Exit exit, std::string text) {
  return tl::unexpected<Failure>(Failure{exit, std::move(text)});
}
// The exit code for an error of the library.
tl::unexpected<Failure> refuse(const Error& error);

// The same for an error of a store: names the store, and says what to do if its file is
// missing.
tl::unexpected<Failure> refuse_in(const config::StoreConfig& store, const Error& error);

// How a command was called, without its own options.
struct CommandContext {
  std::filesystem::path config_file;
  bool json = false;  // one JSON document on stdout
};

Expected<config::Config> load(const CommandContext& context);
// Whether the secrets of a store exist. Each store reads its own, and only a command that uses the
// store needs them.
Expected<bool> check_secrets(const config::StoreConfig& store);
// The duration given as `option`.
Expected<Duration> duration_of(std::string_view text, std::string_view option);
// The store of that name with its secrets; if `name` is empty, the only database.
Expected<const config::StoreConfig*> choose_store(const config::Config& config,
                                                  std::string_view name);

}  // namespace dovetail::app

// Returns the error of a Status or Result to the caller, as a Failure.
#define DOVETAIL_OR_REFUSE(expression)                               \
  do {                                                               \
    if (auto dovetail_or_refuse = (expression); !dovetail_or_refuse) \
      return ::dovetail::app::refuse(dovetail_or_refuse.error());    \
  } while (false)

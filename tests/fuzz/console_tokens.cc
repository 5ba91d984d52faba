// The file of tokens, and the cookies of sign-ins. A refused file is refused without showing what
// is in it, and no cookie but a real one opens a session.
#include <string>

#include "console/tokens.h"
#include "fuzz/fuzz.h"

using namespace dovetail;
using namespace dovetail::console;

namespace {

constexpr std::string_view kToken = "0123456789abcdefghijklmnopqrstuv";
constexpr WallTime kNow{std::chrono::seconds(1'700'000'000)};

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

// No word that is long enough for a token is in the error.
void check_error(std::string_view input, const std::string& error) {
  FUZZ_REQUIRE(error.starts_with("t:"));
  while (!input.empty()) {
    std::size_t end = 0;
    while (end < input.size() && !is_blank(input[end])) ++end;
    FUZZ_REQUIRE(end < 24 || error.find(input.substr(0, end)) == std::string::npos);
    input.remove_prefix(std::min(end + 1, input.size()));
  }
}

void check_file(std::string_view input) {
  const auto tokens = parse_tokens(input, "t");
  if (!tokens) return check_error(input, tokens.error().text);
  FUZZ_REQUIRE(!tokens->empty());
  std::string text;
  for (const Token& one : *tokens) {
    FUZZ_REQUIRE(one.role != Role::nobody && !one.name.empty() && one.name.size() <= 64);
    FUZZ_REQUIRE(one.secret.size() >= 24 && one.secret.size() <= 256);
    text += std::string(to_string(one.role)) + " " + one.name + " " + one.secret + "\n";
  }
  const auto again = parse_tokens(text, "t");
  FUZZ_REQUIRE(again && again->size() == tokens->size());
  for (std::size_t i = 0; i < again->size(); ++i)
    FUZZ_REQUIRE((*again)[i].role == (*tokens)[i].role && (*again)[i].name == (*tokens)[i].name &&
                 (*again)[i].secret == (*tokens)[i].secret);
}

void check_session(std::string_view input) {
  static Tokens tokens;
  static const std::string real = [] {
    tokens.set({{Role::admin, "ada", std::string(kToken)}});
    return *tokens.open_session(kToken, kNow);
  }();
  FUZZ_REQUIRE(tokens.find_session(real, kNow)->name == "ada");
  FUZZ_REQUIRE(!tokens.find_session(real, kNow + Tokens::kSessionHolds));
  FUZZ_REQUIRE(input == real || !tokens.find_session(input, kNow));
  FUZZ_REQUIRE(input == kToken || !tokens.find(input));
  if (input.empty()) return;
  // The real one with a piece of another in it.
  const std::size_t at = static_cast<unsigned char>(input.front()) % real.size();
  const std::string changed = real.substr(0, at) + std::string(input.substr(1)) +
                              real.substr(std::min(real.size(), at + input.size() - 1));
  FUZZ_REQUIRE(changed == real || !tokens.find_session(changed, kNow));
}

}  // namespace

void check_input(std::string_view input) {
  check_file(input);
  check_session(input);
}

std::vector<std::string_view> seed_inputs() {
  return {
      "# who\nviewer grafana bbbbbbbbbbbbbbbbbbbbbbbbbbbb\r\n  admin\talice@x "
      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n",
      "admin alice aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\nviewer bob "
      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n",
      "root alice cccccccccccccccccccccccccccccc",
      "operator a/b ddddddddddddddddddddddddddddd",
      "admin eeeeeeeeeeeeeeeeeeeeeeeeeeeeeee",
      "viewer a \"ffffffffffffffffffffffffffff\"",
      "1700086400.0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef.ada",
      "\x02",
      "\x50x",
      ""};
}

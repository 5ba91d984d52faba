// Idempotency keys, secrets and signatures: accepted ones have the right form, and only a real
// signature is accepted.
#include <string>

#include "core/inbox/request.h"
#include "fuzz/fuzz.h"
#include "webhook/signature.h"

using namespace dovetail;
using namespace dovetail::http;

namespace {

std::string quoted(std::string_view key) {
  std::string text = "\"";
  for (const char c : key) {
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return text + '"';
}

void check_key(std::string_view input) {
  const auto key = parse_idempotency_key(input, false);
  if (!key) {
    FUZZ_REQUIRE(!key.error().text.empty() && !parse_idempotency_key(input, true));
    return;
  }
  FUZZ_REQUIRE(!key->empty() && key->size() <= 255);
  for (const char c : *key) FUZZ_REQUIRE(c >= ' ' && c <= '~');
  const auto again = parse_idempotency_key(quoted(*key), true);
  FUZZ_REQUIRE(again && *again == *key);
}

}  // namespace

void check_input(std::string_view input) {
  check_key(input);
  static auto secrets = WebhookSecrets::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
  FUZZ_REQUIRE(!secrets->verify(input, "id", "1700000000", "body"));
  const std::string signature = secrets->sign("id", "1700000000", input);
  FUZZ_REQUIRE(secrets->verify(signature, "id", "1700000000", input));
  FUZZ_REQUIRE(!secrets->verify(signature, "id2", "1700000000", input));
  // The error text is always the same and shows none of them.
  static const std::string wrong = WebhookSecrets::parse("whsec_x").error().text;
  if (const auto others = WebhookSecrets::parse(input); !others)
    FUZZ_REQUIRE(others.error().code == Errc::rejected && others.error().text == wrong);
}

std::vector<std::string_view> seed_inputs() {
  return {"\"8e03978e-40d5-43dd-bc93-6894a57f9324\"",
          "bare-key",
          "\"a\\\"b\\\\\";p=1",
          "\"open",
          "a,b",
          "v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4= v1a,x v2,",
          "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw whsec_x",
          "whsec_====",
          ""};
}

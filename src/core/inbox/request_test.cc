#include "core/inbox/request.h"

#include <gtest/gtest.h>

#include "core/event/sha256.h"

namespace dovetail {
namespace {

TEST(Sha256, GivesTheKnownDigests) {
  EXPECT_EQ(to_hex(Sha256().finish()),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(to_hex(Sha256().add("abc").finish()),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(to_hex(Sha256().add(std::string(1'000'000, 'a')).finish()),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, DoesNotCareHowTheBytesCome) {
  const std::string bytes(1000, 'x');
  for (const std::size_t first : {0U, 1U, 55U, 56U, 63U, 64U, 65U, 999U}) {
    EXPECT_EQ(Sha256().add(bytes.substr(0, first)).add(bytes.substr(first)).finish(),
              Sha256().add(bytes).finish())
        << first;
  }
}

TEST(IdempotencyKey, IsTheSameQuotedAndBare) {
  EXPECT_EQ(parse_idempotency_key("\"8e03978e-40d5\"").value(), "8e03978e-40d5");
  EXPECT_EQ(parse_idempotency_key("  8e03978e-40d5\t").value(), "8e03978e-40d5");
  EXPECT_EQ(parse_idempotency_key("\"a b,c;\\\"d\\\\\"").value(), "a b,c;\"d\\");
  EXPECT_EQ(parse_idempotency_key("\"a\";v=1").value(), "a") << "parameters are ignored";
}

TEST(IdempotencyKey, IsRefusedWhenItIsOfNoForm) {
  const std::string long_one(256, 'k');
  for (const std::string& value :
       {std::string(), std::string("  "), std::string("\"\""), std::string("\"open"),
        std::string("\"a\" \"b\""), std::string("\"a\", \"b\""), std::string("a, b"),
        std::string("a b"), std::string("\"a\\n\""), std::string("\"a\\"),
        std::string("\"\xc3\xa9\""), std::string("\xc3\xa9"), std::string("\"a\nb\""),
        std::string("a\0b", 3), long_one, "\"" + long_one + "\""}) {
    const auto key = parse_idempotency_key(value);
    ASSERT_FALSE(key) << value;
    EXPECT_NE(key.error().text.find("; send 1 to 255"), std::string::npos) << key.error().text;
    EXPECT_TRUE(value.size() < 100 || key.error().text.find(value) == std::string::npos)
        << "keys are not for logs";
  }
  EXPECT_FALSE(parse_idempotency_key("bare", true));
  EXPECT_EQ(parse_idempotency_key(long_one.substr(1)).value().size(), 255U);
}

TEST(RequestFingerprint, DiffersWhereAnyPartDiffers) {
  const std::string one = request_fingerprint("POST", "/orders?x=1", "{}");
  EXPECT_EQ(one.size(), 32U);
  EXPECT_EQ(one, request_fingerprint("POST", "/orders?x=1", "{}"));
  EXPECT_NE(one, request_fingerprint("PATCH", "/orders?x=1", "{}"));
  EXPECT_NE(one, request_fingerprint("POST", "/orders?x=2", "{}"));
  EXPECT_NE(one, request_fingerprint("POST", "/orders?x=1", "{ }"));
  EXPECT_NE(one, request_fingerprint("POST", "/orders?x=1{", "}")) << "parts do not run together";
}

TEST(RequestScope, TellsClientsApartAndKeepsNoSecret) {
  EXPECT_EQ(request_scope("shop", ""), "shop");
  const std::string scope = request_scope("shop", "Bearer secret");
  EXPECT_NE(scope, request_scope("shop", "Bearer other"));
  EXPECT_EQ(scope.find("secret"), std::string::npos);
  EXPECT_EQ(scope.size(), 4U + 1 + 32);
  EXPECT_EQ(shown_key("secret").size(), 12U);
  EXPECT_NE(shown_key("secret"), shown_key("other"));
}

TEST(RequestDecision, FollowsWhatIsKnown) {
  const RequestRow finished{.is_finished = true};
  EXPECT_EQ(decide_request(finished, false), RequestState::finished);
  EXPECT_EQ(decide_request({.is_finished = true, .same_token = true}, false),
            RequestState::finished);
  EXPECT_EQ(decide_request({.is_finished = true, .same_fingerprint = false}, false),
            RequestState::mismatch);
  EXPECT_EQ(decide_request({.is_leased = true}, true), RequestState::running);
  EXPECT_EQ(decide_request({.is_leased = true, .same_fingerprint = false}, true),
            RequestState::mismatch);
  EXPECT_EQ(decide_request({.is_leased = true, .same_token = true}, false), RequestState::first);
  EXPECT_EQ(decide_request({.is_leased = true, .is_expired = true}, true), RequestState::running)
      << "what runs does not expire";
  EXPECT_EQ(decide_request({}, false), RequestState::unknown);
  EXPECT_EQ(decide_request({}, true), RequestState::first);
  EXPECT_EQ(decide_request({.same_fingerprint = false}, true), RequestState::mismatch);
  EXPECT_EQ(decide_request({.is_expired = true, .same_fingerprint = false}, false),
            RequestState::first);
  EXPECT_EQ(decide_request({.is_finished = true, .is_expired = true}, false), RequestState::first);
}

TEST(Problem, SaysWhatToDoAndQuotesWhatItSays) {
  RequestTicket ticket;
  EXPECT_FALSE(problem_of(ticket));
  ticket.state = RequestState::finished;
  EXPECT_FALSE(problem_of(ticket));
  ticket.state = RequestState::running;
  EXPECT_EQ(problem_of(ticket)->status, 409);
  EXPECT_GT(problem_of(ticket)->retry_after_s, 0);
  ticket.state = RequestState::unknown;
  EXPECT_EQ(problem_of(ticket)->status, 409);
  EXPECT_EQ(problem_of(ticket)->retry_after_s, 0) << "waiting does not help";
  ticket.state = RequestState::mismatch;
  EXPECT_EQ(problem_of(ticket)->status, 422);
  EXPECT_EQ(key_problem("").status, 400);
  EXPECT_EQ((Problem{400, "urn:x", "a \"b\"", "c\n\\"}.to_json()),
            "{\"type\": \"urn:x\", \"title\": \"a \\\"b\\\"\", \"status\": 400, \"detail\": "
            "\"c\\u000a\\\\\"}");
}

}  // namespace
}  // namespace dovetail

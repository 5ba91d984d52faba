#include "core/event/redact.h"

#include <gtest/gtest.h>

namespace dovetail {
namespace {

TEST(Redact, HidesThePasswordOfAUrl) {
  EXPECT_EQ(without_secrets("no route to amqp://shop:hush@bus:5672/orders: refused"),
            "no route to amqp://shop:***@bus:5672/orders: refused");
  EXPECT_EQ(without_secrets("redis://:hush@127.0.0.1/0"), "redis://:***@127.0.0.1/0");
  EXPECT_EQ(without_secrets("nats://a:x@y@h:1"), "nats://a:***@h:1")
      << "a password with an @ in it";
}

TEST(Redact, HidesValuesThatAreNamedAsSecrets) {
  EXPECT_EQ(without_secrets("host=db password=hush user=x"), "host=db password=*** user=x");
  EXPECT_EQ(without_secrets("password='hu sh' x"), "password='***' x");
  EXPECT_EQ(without_secrets("GET /x?Token=abc&y=1"), "GET /x?Token=***&y=1");
}

TEST(Redact, LeavesTheRestAlone) {
  for (const char* text : {"", "connection refused", "http://host:80/path", "https://user@host/",
                           "password: authentication failed", "the token is wrong", "a://", "://@"})
    EXPECT_EQ(without_secrets(text), text);
}

}  // namespace
}  // namespace dovetail

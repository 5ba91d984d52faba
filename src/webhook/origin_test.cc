#include <gtest/gtest.h>

#include "core/relay/source.h"
#include "dovetail/http.h"
#include "host/host.h"

namespace dovetail::http {
namespace {

ReadOptions listening() {
  ReadOptions options;
  options.port = 8080;
  return options;
}

// tests/proofs/brokers sends events to a consumer with this origin.
TEST(HttpOrigin, NamesItsPlaceAndMakesASourceWithoutListening) {
  const Result<Origin> made = origin(listening());
  ASSERT_TRUE(made) << made.error().text;
  EXPECT_EQ(made->shown, "HTTP at 127.0.0.1:8080/events");
  EXPECT_TRUE(made->make(system_clock(), std::chrono::seconds(3)));
}

TEST(HttpOrigin, WrongOptionsAreRefusedWithTheirReason) {
  const auto refused = [&](const std::function<void(ReadOptions&)>& change) {
    ReadOptions wrong = listening();
    change(wrong);
    const Result<Origin> made = origin(wrong);
    return !made && made.error().code == Errc::rejected && !made.error().text.empty();
  };
  EXPECT_FALSE(refused([](ReadOptions&) {}));
  EXPECT_TRUE(refused([](ReadOptions& wrong) { wrong.port = 0; }));
  EXPECT_TRUE(refused([](ReadOptions& wrong) { wrong.path = "events"; }));
  EXPECT_TRUE(refused([](ReadOptions& wrong) { wrong.secrets = "no secret"; }));
  EXPECT_TRUE(refused([](ReadOptions& wrong) { wrong.cert_file = "without a key"; }));
  EXPECT_TRUE(refused([](ReadOptions& wrong) { wrong.waiting_max = 0; }));
}

}  // namespace
}  // namespace dovetail::http

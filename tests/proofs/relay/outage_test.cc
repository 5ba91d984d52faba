// Half an hour without a sink, in simulated time: the relay's clock moves only when it sleeps; the
// server is real.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "core/relay/relay.h"
#include "core/testing/test_clock.h"
#include "kit/claims.h"
#include "postgres/lane/lease.h"
#include "postgres/lane/parking.h"
#include "postgres/outbox/source.h"
#include "postgres/schema/schema.h"
#include "postgres/testing/test_database.h"

namespace dovetail::postgres {
namespace {

using namespace std::chrono_literals;
using live::claim;

constexpr Duration kOutage = 30min;
constexpr std::string_view kPoison = "poison";

// Unavailable for half an hour, in every way in which a sink can be; publishes more at each
// try.
class AwaySink final : public Sink {
 public:
  AwaySink(TestClock& clock, std::function<void()> publish)
      : clock_(clock), publish_(std::move(publish)) {}

  Status open() override {
    submitted_.clear();
    if (!is_away()) return {};
    publish_();
    ++tries;
    // Refused, lost midway, or silent.
    way_ = static_cast<int>(tries % 3);
    return way_ == 0 ? fail(Errc::unavailable, "nobody listens; check the sink") : Status{};
  }
  Status submit(Events events) override {
    submitted_.emplace_back(events.begin(), events.end());
    return is_away() && way_ == 1 ? fail(Errc::in_doubt, "the line was cut; check it") : Status{};
  }
  Result<bool> collect(std::span<Outcome> outcomes, Duration timeout) override {
    if (is_away()) {
      clock_.advance(std::max<Duration>(timeout, 1ms));
      return false;
    }
    if (submitted_.empty()) return false;
    for (std::size_t i = 0; i < outcomes.size(); ++i) outcomes[i] = fate(*submitted_.front()[i]);
    submitted_.pop_front();
    return true;
  }
  bool keeps_order_on_failure() const override { return false; }

  std::uint64_t tries = 0;          // while away
  std::uint64_t poison_tries = 0;   // after that
  std::uint64_t before_outage = 0;  // delivered
  std::map<std::string, std::vector<std::int64_t>> delivered;
  std::uint64_t count = 0;
  TimePoint away_from = TimePoint::max();

 private:
  bool is_away() { return clock_.now() >= away_from && clock_.now() < away_from + kOutage; }

  Outcome fate(const Event& event) {
    if (event.aggregate_id == kPoison) {
      ++poison_tries;
      publish_();  // parked only if it fails while others pass
      return Outcome{Fate::failed, 0, "the sink does not like it"};
    }
    delivered[std::string(event.aggregate_id)].push_back(event.aggregate_version);
    ++count;
    return Outcome{Fate::confirmed};
  }

  TestClock& clock_;
  std::function<void()> publish_;
  std::deque<std::vector<const Event*>> submitted_;
  int way_ = 0;
};

class Outage : public ::testing::Test {
 protected:
  Outage() {
    const Status made = create_schema(application_);
    EXPECT_TRUE(made) << text_of(made);
  }
  void publish(const std::string& key) {
    must(application_, "SELECT dovetail.publish('order', '" + key +
                           "', 'changed', '{}', aggregate_version => " +
                           std::to_string(++versions_[key]) + ")");
  }
  void publish_some(int events) {
    must(application_, "BEGIN");
    for (int i = 0; i < events; ++i) publish(std::to_string(published_++ % 50));
    must(application_, "COMMIT");
  }

  TestDatabase database_;
  Connection application_ = database_.connect();
  std::map<std::string, std::int64_t> versions_;
  std::uint64_t published_ = 0;
};

TEST_F(Outage, OfHalfAnHourParksNothingLosesNothingAndBurnsNoAttempt) {
  TestClock clock;
  Reader reader{database_.conninfo, "outage"};
  PostgresSource source(reader, clock);
  PostgresParking parking(reader);
  PostgresLease lease(reader, clock, "test", 10s);
  RelayMetrics metrics;
  AwaySink sink(clock, [this] { publish_some(20); });
  std::uint64_t parked_in_outage = 0;
  std::map<std::string, int> notices;
  std::stop_source stop;
  RelayOptions options;
  options.window_events_max = 200;  // fewer than wait
  options.attempts_max = 5;
  options.key_retry = {1ms, 20ms};  // by the database's clock, which is real
  Relay relay({source, sink, parking, lease, clock, metrics,
               [&](const RelayNotice& notice) {
                 ++notices[std::string(to_string(notice.kind))];
                 if (notice.kind == RelayNotice::Kind::parked && sink.poison_tries == 0)
                   ++parked_in_outage;
               }},
              options);

  publish(std::string(kPoison));
  publish_some(300);
  sink.away_from = clock.now();
  // Ends the run when everything has arrived; does nothing else.
  std::jthread watcher([&](std::stop_token ended) {
    Connection connection = database_.connect();
    (void)eventually([&] {
      return ended.stop_requested() ||
             text(connection,
                  "SELECT (EXISTS (SELECT FROM dovetail.parked WHERE state = 'parked') AND NOT "
                  "EXISTS (SELECT FROM dovetail.events WHERE state = 'pending'))::text") == "true";
    });
    stop.request_stop();
  });
  const Status ended = relay.run(stop.get_token());
  EXPECT_TRUE(ended) << text_of(ended);

  std::uint64_t inverted = 0;
  std::uint64_t lost = 0;
  for (const auto& [key, last] : versions_) {
    if (key == kPoison) continue;
    const std::vector<std::int64_t>& got = sink.delivered[key];
    std::int64_t expected = 0;
    for (const std::int64_t version : got) inverted += version == ++expected ? 0 : 1;
    lost += expected < last ? static_cast<std::uint64_t>(last - expected) : 0;
  }
  claim(parked_in_outage == 0 && lost == 0 && inverted == 0 && sink.count >= published_,
        "outage of %lld min: %llu parked, %llu lost, %llu inverted; %llu events drained after %llu "
        "tries to reach the sink, told in %d lines",
        static_cast<long long>(kOutage / 1min), static_cast<unsigned long long>(parked_in_outage),
        static_cast<unsigned long long>(lost), static_cast<unsigned long long>(inverted),
        static_cast<unsigned long long>(sink.count), static_cast<unsigned long long>(sink.tries),
        notices["sink_lost"] + notices["sink_restored"] + notices["stalled"]);
  const std::int64_t attempts =
      number(application_, "SELECT attempts FROM dovetail.parked WHERE aggregate_id = 'poison'");
  claim(sink.poison_tries > options.attempts_max && attempts == options.attempts_max,
        "outage: an event that failed afterwards still had all of its %llu attempts",
        static_cast<unsigned long long>(sink.poison_tries));
}

}  // namespace
}  // namespace dovetail::postgres

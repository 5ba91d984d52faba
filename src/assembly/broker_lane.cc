#include "assembly/broker_lane.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "host/errand.h"

namespace dovetail::assembly {
namespace {

// The relay's thread must renew the lease in time, and a busy broker may be slow.
Duration call_max(Duration lease) { return std::max<Duration>(lease / 3, std::chrono::seconds(3)); }

class BrokerLane final : public Lane {
 public:
  BrokerLane(Origin origin, LanePlan plan, std::unique_ptr<OriginStore> home, Clock& clock)
      : home_(std::move(home)),
        topics_(std::move(plan.topics)),
        source_(std::move(origin), *home_, clock, run_errand, !topics_, call_max(plan.relay.lease)),
        lease_(source_, home_->lease()),
        sink_(plan.make_sink(0)),
        relay_(RelayPorts{.source = source_,
                          .sink = *sink_,
                          .parking = home_->parking(),
                          .lease = lease_,
                          .clock = clock,
                          .metrics = metrics_,
                          .notify = std::move(plan.notify),
                          .topics = topics_ ? &*topics_ : nullptr,
                          .report = [this](const RelayState& state) { home_->say(state); }},
               options_of(plan.relay)) {}

  Status run(std::stop_token stop) override { return relay_.run(stop); }
  const RelayMetrics& metrics() const override { return metrics_; }
  std::optional<TimePoint> quiet_since() const override { return source_.quiet_since(); }

 private:
  std::unique_ptr<OriginStore> home_;
  std::optional<TopicTemplate> topics_;
  RelayMetrics metrics_;
  OriginSource source_;
  OriginLease lease_;
  std::unique_ptr<Sink> sink_;
  Relay relay_;
};

}  // namespace

std::unique_ptr<Lane> make_broker_lane(const BrokerKind& kind, LanePlan plan,
                                       std::unique_ptr<OriginStore> home, Clock& clock) {
  Origin origin;
  origin.make = [&kind, &from = plan.from](Clock& its, Duration longest) {
    return kind.make_source(from, longest, its);
  };
  return std::make_unique<BrokerLane>(std::move(origin), std::move(plan), std::move(home), clock);
}

}  // namespace dovetail::assembly

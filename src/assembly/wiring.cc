#include "assembly/wiring.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "assembly/brokers/brokers.h"
#include "assembly/database.h"
#include "assembly/target.h"
#include "core/message/routing.h"
#include "host/errand.h"
#include "host/jitter.h"
#include "host/parallel_sink.h"

namespace dovetail::assembly {
namespace {

class RefusedSink final : public Sink {
 public:
  explicit RefusedSink(Error why) : why_(std::move(why)) {}
  Status open() override { return fail(why_); }
  Status submit(Events) override { return fail(why_); }
  Result<bool> collect(std::span<Outcome>, Duration) override { return fail(why_); }
  bool keeps_order_on_failure() const override { return false; }

 private:
  Error why_;
};

// The relay's thread must renew the lease in time, and a busy broker may be slow.
Duration call_max(Duration lease) { return std::max<Duration>(lease / 3, std::chrono::seconds(3)); }

class BrokerLane final : public Lane {
 public:
  BrokerLane(LanePlan plan, std::unique_ptr<OriginStore> home, Clock& clock)
      : relay_(plan.relay),
        home_(std::move(home)),
        clock_(clock),
        topics_(std::move(plan.topics)),
        notify_(std::move(plan.notify)),
        source_(std::move(plan.origin), *home_, clock, run_errand, !topics_,
                call_max(relay_.lease)),
        lease_(source_, home_->lease()),
        sink_(plan.make_sink(0)) {}

  Status run(std::stop_token stop) override {
    Relay relay(RelayPorts{.source = source_,
                           .sink = *sink_,
                           .parking = home_->parking(),
                           .lease = lease_,
                           .clock = clock_,
                           .metrics = metrics_,
                           .notify = notify_,
                           .topics = topics_ ? &*topics_ : nullptr,
                           .report = [this](const RelayState& state) { home_->say(state); }},
                options_of(relay_));
    return relay.run(std::move(stop));
  }
  const RelayMetrics& metrics() const override { return metrics_; }
  std::optional<TimePoint> quiet_since() const override { return source_.quiet_since(); }

 private:
  const config::RelayConfig& relay_;
  std::unique_ptr<OriginStore> home_;
  Clock& clock_;
  std::optional<TopicTemplate> topics_;
  std::function<void(const RelayNotice&)> notify_;
  RelayMetrics metrics_;
  OriginSource source_;
  OriginLease lease_;
  std::unique_ptr<Sink> sink_;
};

Origin origin_of(const config::StoreConfig& from) {
  Origin origin;
  origin.make = [&kind = *broker_of(from), &from](Clock& clock, Duration longest) {
    return kind.make_source(from, longest, clock);
  };
  return origin;
}

}  // namespace

config::LogLevel level_of(RelayNotice::Kind kind) {
  using Kind = RelayNotice::Kind;
  switch (kind) {
    case Kind::standby:
    case Kind::held:
    case Kind::started:
    case Kind::sink_restored:
    case Kind::key_released:
    case Kind::source_changed:
    case Kind::drained:
      return config::LogLevel::info;
    case Kind::sink_lost:
    case Kind::sink_sick:
    case Kind::session_lost:
    case Kind::reminder:
    case Kind::parked:
    case Kind::stalled:
      return config::LogLevel::warn;
    case Kind::halted:
      return config::LogLevel::error;
  }
  return config::LogLevel::error;
}

RelayOptions options_of(const config::RelayConfig& relay) {
  RelayOptions options = relay.options;
  options.seed = jitter_seed();
  options.batch_time_max = relay.lease / 6;
  return options;
}

std::unique_ptr<Sink> refused_sink(Error why) {
  return std::make_unique<RefusedSink>(std::move(why));
}

std::unique_ptr<Sink> make_sink(const config::StoreConfig& to, Clock& clock) {
  if (to.is_broker()) {
    auto sink = broker_of(to)->make_sink(to, clock);
    if (!sink) return refused_sink(sink.error());
    return std::move(*sink);
  }
  return database_of(to)->make_mailbox(clock);
}

Result<std::unique_ptr<Lane>> make_lane(const config::Config& config,
                                        const config::RelayConfig& relay, Clock& clock,
                                        std::function<void(const RelayNotice&)> notify) {
  const config::StoreConfig* from = config.find_store(relay.from);
  const config::StoreConfig* to = config.find_store(relay.to);
  if (from == nullptr || to == nullptr) {
    return fail(Errc::rejected, "relay " + relay.name + " names a store that is not in the config");
  }
  std::optional<TopicTemplate> topics;
  if (!relay.topic.empty()) {
    auto parsed = TopicTemplate::parse(relay.topic);
    if (!parsed) return fail(parsed.error());
    topics = std::move(*parsed);
  }
  LanePlan plan{
      .from = *from,
      .relay = relay,
      .target = target_of(config, relay),
      .topics = std::move(topics),
      .make_sink = [to,
                    &clock](std::uint32_t) { return in_background(make_sink(*to, clock), clock); },
      .notify = std::move(notify)};
  return make_lane(std::move(plan), home_of(relay, config), clock);
}

std::unique_ptr<Lane> make_lane(LanePlan plan, const config::StoreConfig& home, Clock& clock) {
  if (!plan.origin.make && plan.from.is_broker()) plan.origin = origin_of(plan.from);
  if (!plan.origin.make) return database_of(plan.from)->make_lane(std::move(plan), clock);
  auto kept = database_of(home)->make_origin_store(plan.relay, plan.target, clock);
  return std::make_unique<BrokerLane>(std::move(plan), std::move(kept), clock);
}

}  // namespace dovetail::assembly

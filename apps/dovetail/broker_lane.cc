#include "broker_lane.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <optional>
#include <utility>

namespace dovetail::app {
namespace {

// The broker's source with what the store keeps about it. Made anew for each session: a relay that
// has lost the lane must not stay in the broker's group with messages that another waits for.
class BrokerSource final : public Source {
 public:
  using Make = std::function<Result<std::unique_ptr<Source>>()>;
  BrokerSource(Make make, OutsideHome& home, bool keeps_topics, Clock& clock)
      : make_(std::move(make)), home_(home), keeps_topics_(keeps_topics), clock_(clock) {}

  void drop() {
    quiet_since_us_ = 0;
    source_.reset();
  }

  Status open() override {
    drop();
    auto made = make_();
    if (!made) return fail(made.error());
    DOVETAIL_TRY(home_.open());
    DOVETAIL_TRY((*made)->open());
    source_ = std::move(*made);
    moved();
    return {};
  }

  Status read(Batch& out, const Limits& limits, std::stop_token stop) override {
    const std::size_t before = out.size();
    DOVETAIL_TRY(source_->read(out, limits, std::move(stop)));
    if (out.size() == before) return {};
    moved();
    if (keeps_topics_) return {};
    for (Event& event : out.events().subspan(before)) event.topic = {};
    return {};
  }

  Status settle(const Batch& batch, std::span<const Settled> fates) override {
    DOVETAIL_TRY(source_->settle(batch, fates));
    home_.add(fates.size(),
              static_cast<std::uint64_t>(std::count(fates.begin(), fates.end(), Settled::parked)));
    moved();
    return {};
  }

  Status flush() override {
    DOVETAIL_TRY(source_->flush());
    // The broker knows what is settled. Counts that cannot be written now are no reason to stop.
    if (const Status counted = home_.write(); !counted && counted.error().code == Errc::stopped) {
      return counted;
    }
    return {};
  }

  // Any thread.
  std::optional<TimePoint> quiet_since() const {
    const std::int64_t since = quiet_since_us_;
    if (since == 0) return std::nullopt;
    return TimePoint{Duration{since}};
  }

 private:
  void moved() { quiet_since_us_ = clock_.now().time_since_epoch().count(); }

  Make make_;
  std::unique_ptr<Source> source_;
  OutsideHome& home_;
  bool keeps_topics_;
  Clock& clock_;
  std::atomic<std::int64_t> quiet_since_us_{0};  // 0: not open
};

// Lets go of the broker before it asks for the lane.
class BrokerLease final : public Lease {
 public:
  BrokerLease(BrokerSource& source, Lease& lease) : source_(source), lease_(lease) {}

  Status acquire() override {
    source_.drop();
    return lease_.acquire();
  }
  Status renew() override { return lease_.renew(); }
  Status release() override {
    source_.drop();
    return lease_.release();
  }
  TimePoint deadline() const override { return lease_.deadline(); }
  TimePoint renew_at() const override { return lease_.renew_at(); }

 private:
  BrokerSource& source_;
  Lease& lease_;
};

class BrokerLane final : public Lane {
 public:
  BrokerLane(BrokerSource::Make make, LanePlan plan, std::unique_ptr<OutsideHome> home,
             Clock& clock)
      : home_(std::move(home)),
        topics_(std::move(plan.topics)),
        source_(std::move(make), *home_, !topics_, clock),
        lease_(source_, home_->lease()),
        sink_(plan.make_sink(0)),
        relay_(RelayPorts{.source = source_,
                          .sink = *sink_,
                          .parking = home_->parking(),
                          .lease = lease_,
                          .clock = clock,
                          .metrics = metrics_,
                          .notify = std::move(plan.notify),
                          .topics = topics_ ? &*topics_ : nullptr},
               options_of(plan.relay)) {}

  Status run(std::stop_token stop) override { return relay_.run(stop); }
  const RelayMetrics& metrics() const override { return metrics_; }
  std::optional<TimePoint> quiet_since() const override { return source_.quiet_since(); }

 private:
  std::unique_ptr<OutsideHome> home_;
  std::optional<TopicTemplate> topics_;
  RelayMetrics metrics_;
  BrokerSource source_;
  BrokerLease lease_;
  std::unique_ptr<Sink> sink_;
  Relay relay_;
};

}  // namespace

std::unique_ptr<Lane> make_broker_lane(const BrokerKind& kind, LanePlan plan,
                                       std::unique_ptr<OutsideHome> home, Clock& clock) {
  BrokerSource::Make make = [&kind, &from = plan.from, &clock] {
    return kind.make_source(from, clock);
  };
  return std::make_unique<BrokerLane>(std::move(make), std::move(plan), std::move(home), clock);
}

}  // namespace dovetail::app

#include "broker_lane.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "host/host.h"
#include "sqlite/lease.h"
#include "sqlite/mailbox.h"
#include "sqlite/outside.h"
#include "sqlite/parking.h"

namespace dovetail::app {
namespace {

// The broker's source with what the store keeps about it. Made anew for each session: a relay that
// has lost the lane must not stay in the broker's group with messages that another waits for.
class BrokerSource final : public Source {
 public:
  using Make = std::function<Result<std::unique_ptr<Source>>()>;
  BrokerSource(Make make, sqlite::Reader& reader, bool keeps_topics, Clock& clock)
      : make_(std::move(make)),
        progress_(reader, clock),
        keeps_topics_(keeps_topics),
        clock_(clock) {}

  void drop() {
    quiet_since_us_ = 0;
    source_.reset();
  }

  Status open() override {
    drop();
    auto made = make_();
    if (!made) return fail(made.error());
    DOVETAIL_TRY(progress_.open());
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
    progress_.add(fates.size(), static_cast<std::uint64_t>(
                                    std::count(fates.begin(), fates.end(), Settled::parked)));
    moved();
    return {};
  }

  Status flush() override {
    DOVETAIL_TRY(source_->flush());
    // The broker knows what is settled. Counts that cannot be written now are no reason to stop.
    if (const Status counted = progress_.write();
        !counted && counted.error().code == Errc::stopped) {
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
  sqlite::OutsideProgress progress_;
  bool keeps_topics_;
  Clock& clock_;
  std::atomic<std::int64_t> quiet_since_us_{0};  // 0: not open
};

// Lets go of the broker before it asks for the lane.
class BrokerLease final : public Lease {
 public:
  BrokerLease(BrokerSource& source, sqlite::SqliteLease lease)
      : source_(source), lease_(std::move(lease)) {}

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
  sqlite::SqliteLease lease_;
};

class BrokerLane final : public Lane {
 public:
  BrokerLane(BrokerSource::Make make, const ops::StoreConfig& to, const ops::RelayConfig& relay,
             std::optional<TopicTemplate> topics, Clock& clock,
             std::function<void(const RelayNotice&)> notify)
      : reader_{.path = to.path.string(), .name = relay.name, .stream = Stream::outside},
        topics_(std::move(topics)),
        source_(std::move(make), reader_, !topics_, clock),
        parking_(reader_, clock),
        lease_(source_,
               sqlite::SqliteLease(reader_, clock, process_label(), boot_id(), relay.lease)),
        sink_(make_sink(to, clock)),
        relay_(RelayPorts{.source = source_,
                          .sink = *sink_,
                          .parking = parking_,
                          .lease = lease_,
                          .clock = clock,
                          .metrics = metrics_,
                          .notify = std::move(notify),
                          .topics = topics_ ? &*topics_ : nullptr},
               options_of(relay)) {}

  Status run(std::stop_token stop) override { return relay_.run(stop); }
  const RelayMetrics& metrics() const override { return metrics_; }
  std::optional<TimePoint> quiet_since() const override { return source_.quiet_since(); }

 private:
  sqlite::Reader reader_;
  std::optional<TopicTemplate> topics_;
  RelayMetrics metrics_;
  BrokerSource source_;
  sqlite::SqliteParking parking_;
  BrokerLease lease_;
  std::unique_ptr<Sink> sink_;
  Relay relay_;
};

}  // namespace

std::unique_ptr<Lane> make_broker_lane(const BrokerKind& kind, const ops::StoreConfig& from,
                                       const ops::StoreConfig& to, const ops::RelayConfig& relay,
                                       std::optional<TopicTemplate> topics, Clock& clock,
                                       std::function<void(const RelayNotice&)> notify) {
  return std::make_unique<BrokerLane>(
      [&kind, &from, &clock] { return kind.make_source(from, clock); }, to, relay,
      std::move(topics), clock, std::move(notify));
}

}  // namespace dovetail::app

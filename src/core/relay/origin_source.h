// A broker as the source of a relay whose lease, counts and parked events are in a database.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "core/clock.h"
#include "core/relay/lease.h"
#include "core/relay/parking.h"
#include "core/relay/relay_report.h"
#include "core/relay/source.h"
#include "dovetail/origin.h"

namespace dovetail {

// What a database keeps about a reader of a broker: its lease, its counts and its parked events.
// One thread at a time.
class OriginStore {
 public:
  virtual ~OriginStore() = default;
  virtual Lease& lease() = 0;
  virtual Parking& parking() = 0;
  // Connects, also anew, and makes the reader's row.
  virtual Status open() = 0;
  // The greatest position of what is parked and unfinished; 0: nothing is. After open().
  virtual Result<std::int64_t> last_parked() = 0;
  // Counts on; durable with the next write().
  virtual void add(std::uint64_t settled, std::uint64_t parked) = 0;
  // stopped: the lane has another owner. After any other error it is counted with the next write.
  virtual Status write() = 0;
  // Keeps what the relay says about itself, for people; does not wait.
  virtual void say(const RelayState&) {}
};

// Runs what may take long somewhere else, or at once where there is nowhere else.
using RunBeside = std::function<void(std::function<void()>)>;

// The broker's own source is made anew for each session: whoever has lost the lane must not stay in
// the broker's group with messages that another waits for. It is opened beside the relay's thread,
// since a broker that does not answer keeps whoever connects waiting. One thread at a time. `home`
// and `clock` outlive it.
class OriginSource final : public Source {
 public:
  // `keeps_topics`: false, where the relay names them anew.
  OriginSource(Origin origin, OriginStore& home, Clock& clock, RunBeside run_beside,
               bool keeps_topics = true)
      : origin_(std::move(origin)),
        home_(home),
        clock_(clock),
        run_beside_(std::move(run_beside)),
        keeps_topics_(keeps_topics) {}

  // Leaves the broker's group.
  void drop();

  Status open() override;
  Result<bool> opened(Duration timeout) override;
  Status read(Batch& out, const Limits& limits, std::stop_token stop) override;
  Status settle(const Batch& batch, std::span<const Settled> fates) override;
  Status flush() override;
  Status keep_alive() override { return source_->keep_alive(); }

  // Since when nothing was brought and nothing settled; none: it is not open. Any thread.
  std::optional<TimePoint> quiet_since() const;

 private:
  // What is being opened. Who opens it owns it too, and ends it when nobody waits for it any more.
  struct Opening {
    std::unique_ptr<Source> source{};
    std::mutex mutex{};
    std::condition_variable ended{};
    bool has_ended = false;
    Status result{};
  };

  void moved() { quiet_since_us_ = clock_.now().time_since_epoch().count(); }

  Origin origin_;
  OriginStore& home_;
  Clock& clock_;
  RunBeside run_beside_;
  bool keeps_topics_;
  std::shared_ptr<Opening> opening_{};
  std::unique_ptr<Source> source_{};
  std::atomic<std::int64_t> quiet_since_us_{0};  // 0: not open
};

// The lease of the home, which lets go of the broker before it asks for the lane, and with it. Both
// outlive it.
class OriginLease final : public Lease {
 public:
  OriginLease(OriginSource& source, Lease& lease) : source_(source), lease_(lease) {}

  Status acquire() override;
  Status renew() override { return lease_.renew(); }
  Status release() override;
  TimePoint deadline() const override { return lease_.deadline(); }
  TimePoint renew_at() const override { return lease_.renew_at(); }

 private:
  OriginSource& source_;
  Lease& lease_;
};

}  // namespace dovetail

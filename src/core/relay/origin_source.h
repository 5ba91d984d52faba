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

// What a database keeps for a reader of a broker: its lease, counts and parked events. One thread
// at a time.
class OriginStore {
 public:
  virtual ~OriginStore() = default;
  virtual Lease& lease() = 0;
  virtual Parking& parking() = 0;
  // Connects or reconnects, and creates the reader's row.
  virtual Status open() = 0;
  // The highest position of an unfinished parked event; 0: none. Call it after open().
  virtual Result<std::int64_t> last_parked() = 0;
  // Adds to the counts; durable with the next write().
  virtual void add(std::uint64_t settled, std::uint64_t parked, std::uint64_t skipped) = 0;
  // stopped: the lane has another owner. After another error the next write() includes the counts.
  virtual Status write() = 0;
  // Keeps the relay's report, for people; does not wait.
  virtual void say(const RelayState&) {}
};

// Runs a slow call on another thread, or here if there is none.
using RunBeside = std::function<void(std::function<void()>)>;

// Makes the broker's own source anew for each session: a relay that lost the lane must leave the
// broker's group and not hold messages that another relay waits for. The source opens beside the
// relay's thread, because connecting to a silent broker blocks. One thread at a time. `home` and
// `clock` outlive it.
class OriginSource final : public Source {
 public:
  // `keeps_topics`: false if the relay renames topics. `call_max`: see Origin.
  OriginSource(Origin origin, OriginStore& home, Clock& clock, RunBeside run_beside,
               bool keeps_topics = true, Duration call_max = std::chrono::seconds(3))
      : origin_(std::move(origin)),
        home_(home),
        clock_(clock),
        run_beside_(std::move(run_beside)),
        keeps_topics_(keeps_topics),
        call_max_(call_max) {}

  // Leaves the broker's group.
  void drop();

  Status open() override;
  Result<bool> opened(Duration timeout) override;
  Status read(Batch& out, const Limits& limits, std::stop_token stop) override;
  Status settle(const Batch& batch, std::span<const Settled> fates) override;
  Status flush() override;
  Status keep_alive() override { return source_->keep_alive(); }

  // Since when nothing was read or settled; empty: not open. Any thread.
  std::optional<TimePoint> quiet_since() const;

 private:
  // A source that is being opened. The opening thread owns it too, and ends it if nobody waits.
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
  Duration call_max_;
  std::shared_ptr<Opening> opening_{};
  std::unique_ptr<Source> source_{};
  std::atomic<std::int64_t> quiet_since_us_{0};  // 0: not open
};

// The lease in the home store. It leaves the broker before it asks for the lane and when it
// releases it. Both outlive it.
class OriginLease final : public Lease {
 public:
  OriginLease(OriginSource& source, Lease& lease) : source_(source), lease_(lease) {}

  Status acquire() override;
  Status renew() override { return lease_.renew(); }
  Status release() override;
  Status release_drained() override;
  Hold hold() const override { return lease_.hold(); }
  TimePoint deadline() const override { return lease_.deadline(); }
  TimePoint renew_at() const override { return lease_.renew_at(); }

 private:
  OriginSource& source_;
  Lease& lease_;
};

}  // namespace dovetail

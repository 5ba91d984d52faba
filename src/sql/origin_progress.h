// The counts of a relay that reads a broker.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "core/relay/origin_source.h"
#include "dovetail/result.h"
#include "sql/lane.h"
#include "sql/session.h"

namespace dovetail {

struct OriginStatements {
  // $1 relay. Returns the highest position among its parked events that are not finished; 0: none.
  std::string last_parked;
  // $1 relay, $2 lane, $3 epoch, $4 events settled since the last write, $5 of these parked, $6 of
  // these skipped. Changes no row if the lane has another owner. Not worth a wait for the disk.
  std::string count;
};

// The broker knows how far the relay is; the database only keeps totals, beside the lease and the
// parked events. A crash may lose some counts. One thread at a time.
class OriginProgress {
 public:
  OriginProgress(std::unique_ptr<SqlSession> session, const OriginStatements& sql,
                 const SqlLane& lane)
      : session_(std::move(session)), sql_(sql), lane_(lane) {}
  virtual ~OriginProgress() = default;

  // Connects if needed.
  virtual Status open();
  // After open().
  Result<std::int64_t> last_parked();
  void add(std::uint64_t settled, std::uint64_t parked, std::uint64_t skipped);
  // stopped: the lane has another owner. After another error the next write includes the counts.
  Status write();

 protected:
  void disconnect() { session_->close(); }

 private:
  std::unique_ptr<SqlSession> session_;
  const OriginStatements& sql_;
  SqlLane lane_;
  std::int64_t settled_ = 0;
  std::int64_t parked_ = 0;
  std::int64_t skipped_ = 0;
};

// What a database keeps for a reader of a broker. `Parts` are the database's: reader_, progress_,
// parking_, lease_ and recorder_.
template <class Parts>
class OriginStoreOf final : public OriginStore, private Parts {
 public:
  using Parts::Parts;

  Lease& lease() override { return this->lease_; }
  Parking& parking() override { return this->parking_; }
  Status open() override { return this->progress_.open(); }
  Result<std::int64_t> last_parked() override { return this->progress_.last_parked(); }
  void add(std::uint64_t settled, std::uint64_t parked, std::uint64_t skipped) override {
    this->progress_.add(settled, parked, skipped);
  }
  Status write() override { return this->progress_.write(); }
  void say(const RelayState& state) override { this->recorder_.report(state, this->reader_.epoch); }
};

}  // namespace dovetail

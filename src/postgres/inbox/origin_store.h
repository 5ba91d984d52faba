// What a database keeps about a reader of a broker.
#pragma once

#include <cstdint>
#include <string>

#include "core/relay/origin_source.h"
#include "host/state_recorder.h"
#include "postgres/lane/lease.h"
#include "postgres/lane/parking.h"
#include "postgres/lane/reader.h"

namespace dovetail::postgres {

// The reader of a broker whose lease, counts and parked events are in this database. It has one
// lane, since the broker's order holds only while one process reads it.
Reader broker_reader(std::string conninfo, std::string name, std::string target = {});

// How far such a reader has come, its broker knows; here are only its totals, beside its lease and
// its parked events. What a crash loses of them is not counted. One thread at a time.
class BrokerProgress {
 public:
  explicit BrokerProgress(Reader& reader) : reader_(reader) {}

  // Connects unless the lane is connected; makes its row.
  Status open();
  void add(std::uint64_t settled, std::uint64_t parked);
  // stopped: the lane has another owner. After any other error it is counted with the next write.
  Status write();

 private:
  Reader& reader_;
  std::int64_t settled_since_ = 0;
  std::int64_t parked_since_ = 0;
};

// `clock` outlives it.
class PostgresOriginStore final : public OriginStore {
 public:
  // `target`: the broker that is read, see bind_target().
  PostgresOriginStore(std::string conninfo, std::string name, std::string target,
                      Duration lease_term, Clock& clock);

  Lease& lease() override { return lease_; }
  Parking& parking() override { return parking_; }
  Status open() override { return progress_.open(); }
  Result<std::int64_t> last_parked() override { return last_parked_position(reader_); }
  void add(std::uint64_t settled, std::uint64_t parked) override { progress_.add(settled, parked); }
  Status write() override { return progress_.write(); }
  void say(const RelayState& state) override { recorder_.report(state, reader_.epoch); }

 private:
  Reader reader_;
  BrokerProgress progress_;
  PostgresParking parking_;
  PostgresLease lease_;
  StateRecorder recorder_;  // with connections of its own
};

}  // namespace dovetail::postgres

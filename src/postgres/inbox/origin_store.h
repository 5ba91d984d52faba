// What a database keeps for a reader of a broker.
#pragma once

#include <cstdint>
#include <string>

#include "core/relay/origin_source.h"
#include "host/state_recorder.h"
#include "postgres/lane/lease.h"
#include "postgres/lane/parking.h"
#include "postgres/lane/reader.h"
#include "sql/origin_progress.h"

namespace dovetail::postgres {

// The reader of a broker that has its lease, counts and parked events in this database. It has one
// lane, because a broker's order holds only with one reader.
Reader broker_reader(std::string conninfo, std::string name, std::string target = {});

class BrokerProgress final : public OriginProgress {
 public:
  explicit BrokerProgress(Reader& reader);
};

// `clock` must outlive it.
class PostgresOriginStore final : public OriginStore {
 public:
  // `target`: the broker that is read.
  PostgresOriginStore(std::string conninfo, std::string name, std::string target,
                      Duration lease_term, Clock& clock);

  Lease& lease() override { return lease_; }
  Parking& parking() override { return parking_; }
  Status open() override { return progress_.open(); }
  Result<std::int64_t> last_parked() override { return progress_.last_parked(); }
  void add(std::uint64_t settled, std::uint64_t parked, std::uint64_t skipped) override {
    progress_.add(settled, parked, skipped);
  }
  Status write() override { return progress_.write(); }
  void say(const RelayState& state) override { recorder_.report(state, reader_.epoch); }

 private:
  Reader reader_;
  BrokerProgress progress_;
  PostgresParking parking_;
  PostgresLease lease_;
  StateRecorder recorder_;  // uses its own connections
};

}  // namespace dovetail::postgres

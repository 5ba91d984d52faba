// What a database keeps for a reader of a broker.
#pragma once

#include <cstdint>
#include <string>

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
class OriginParts {
 public:
  // `target`: the broker that is read.
  OriginParts(std::string conninfo, std::string name, std::string target, Duration lease_term,
              Clock& clock);

 protected:
  Reader reader_;
  BrokerProgress progress_;
  PostgresParking parking_;
  PostgresLease lease_;
  StateRecorder recorder_;  // uses its own connections
};
using PostgresOriginStore = OriginStoreOf<OriginParts>;

}  // namespace dovetail::postgres

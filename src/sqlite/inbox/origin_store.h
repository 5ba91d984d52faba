// What a file keeps for a reader of a broker.
#pragma once

#include <cstdint>
#include <string>

#include "core/clock.h"
#include "core/relay/origin_source.h"
#include "sql/origin_progress.h"
#include "sqlite/lane/lease.h"
#include "sqlite/lane/parking.h"
#include "sqlite/lane/reader.h"
#include "sqlite/lane/relay_state.h"

namespace dovetail::sqlite {

class BrokerProgress final : public OriginProgress {
 public:
  BrokerProgress(Reader& reader, Clock& clock);

  // Reopens the file: it may be another one by now.
  Status open() override;
};

// `clock` must outlive it.
class SqliteOriginStore final : public OriginStore {
 public:
  // `target`: the broker that is read.
  SqliteOriginStore(std::string path, std::string name, std::string target, Duration lease_term,
                    Clock& clock);

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
  SqliteParking parking_;
  SqliteLease lease_;
  StateRecorder recorder_;
};

}  // namespace dovetail::sqlite

// What a file keeps for a reader of a broker.
#pragma once

#include <cstdint>
#include <string>

#include "core/clock.h"
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
class OriginParts {
 public:
  // `target`: the broker that is read.
  OriginParts(std::string path, std::string name, std::string target, Duration lease_term,
              Clock& clock);

 protected:
  Reader reader_;
  BrokerProgress progress_;
  SqliteParking parking_;
  SqliteLease lease_;
  StateRecorder recorder_;
};
using SqliteOriginStore = OriginStoreOf<OriginParts>;

}  // namespace dovetail::sqlite

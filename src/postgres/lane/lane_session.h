// The connection of a lane, as the shared rules of src/sql use it.
#pragma once

#include "postgres/connection/session.h"
#include "postgres/lane/reader.h"
#include "sql/lane.h"

namespace dovetail::postgres {

// Lease, source and parking of a lane share it; the first user opens it.
class LaneSession : public PostgresSession {
 public:
  explicit LaneSession(Reader& reader) : PostgresSession(reader.connection), reader_(reader) {}
  Status connect() override { return postgres::connect(reader_); }

 private:
  Reader& reader_;
};

inline SqlLane lane_of(Reader& reader) {
  return SqlLane{reader.relay, reader.target, reader.epoch, reader.lane, reader.lanes};
}

}  // namespace dovetail::postgres

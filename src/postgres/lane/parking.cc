#include "postgres/lane/parking.h"

#include "postgres/lane/lane_session.h"
#include "postgres/lane/statements.h"

namespace dovetail::postgres {

PostgresParking::PostgresParking(Reader& reader)
    : SqlParking(std::make_unique<LaneSession>(reader), lane_statements(),
                 parking_statements(reader.source == SourceKind::mapped), lane_of(reader)) {}

Result<std::int64_t> last_parked_position(Reader& reader) {
  const Result<Rows> rows = reader.connection.query(kLastParked, Params().text(reader.relay));
  if (!rows) return fail(rows.error());
  return rows->int8(0, 0);
}

}  // namespace dovetail::postgres

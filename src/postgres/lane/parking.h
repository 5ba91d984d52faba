// Parked events of one lane, in the database that it reads.
#pragma once

#include <string_view>

#include "postgres/lane/reader.h"
#include "sql/parking.h"

namespace dovetail::postgres {

class PostgresParking : public SqlParking {
 public:
  explicit PostgresParking(Reader& reader);
};

// The highest position among those of the relay that are not finished; 0: there are none.
inline constexpr std::string_view kLastParked =
    "SELECT coalesce(max(position), 0)::int8 FROM dovetail.parked WHERE relay = $1 AND finished_at "
    "IS NULL";
Result<std::int64_t> last_parked_position(Reader& reader);

}  // namespace dovetail::postgres

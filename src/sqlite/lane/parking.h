// Parked events of a reader, in the file that it reads.
#pragma once

#include "sql/parking.h"
#include "sqlite/lane/reader.h"

namespace dovetail::sqlite {

// Writes keep their order with the source's progress in the same file: after a power cut, no event
// is settled without being parked. If the source is a broker, each write is on the disk when it
// returns.
class SqliteParking final : public SqlParking {
 public:
  SqliteParking(Reader& reader, Clock& clock);

  // Reopens the file: it may be another one by now.
  Status open() override;
};

}  // namespace dovetail::sqlite

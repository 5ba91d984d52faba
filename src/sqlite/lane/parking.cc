#include "sqlite/lane/parking.h"

#include "sqlite/lane/reader_session.h"
#include "sqlite/lane/statements.h"

namespace dovetail::sqlite {

namespace {

// If events come from a broker, parked ones are acknowledged there and never come again.
Durability durability_of(const Reader& reader) {
  return reader.source == SourceKind::broker ? Durability::full : Durability::ordered;
}

}  // namespace

SqliteParking::SqliteParking(Reader& reader, Clock& clock)
    : SqlParking(std::make_unique<ReaderSession>(reader, durability_of(reader), clock, ""),
                 lane_statements(), parking_statements(), lane_of(reader)) {}

Status SqliteParking::open() {
  disconnect();
  return SqlParking::open();
}

}  // namespace dovetail::sqlite

// The connection of a reader of a file, as the shared rules of src/sql use it.
#pragma once

#include <string>
#include <utility>

#include "sql/lane.h"
#include "sqlite/connection/session.h"
#include "sqlite/lane/reader.h"

namespace dovetail::sqlite {

// Creates the reader's row when it connects. `reader` must outlive this.
class ReaderSession final : public SqliteSession {
 public:
  ReaderSession(const Reader& reader, Durability durability, Clock& clock, std::string boot)
      : SqliteSession(reader.path, durability, clock, std::move(boot)), reader_(reader) {}

 private:
  Status opened(Database& database) override { return ensure_reader(database, reader_); }
  const Reader& reader_;
};

inline SqlLane lane_of(Reader& reader) { return {reader.name, reader.target, reader.epoch}; }

}  // namespace dovetail::sqlite

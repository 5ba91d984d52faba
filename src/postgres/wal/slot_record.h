// What dovetail.relay_lane records about a lane that reads the WAL.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "postgres/lane/reader.h"
#include "postgres/stream/position.h"

namespace dovetail::postgres {

// Tells databases apart, and a database from itself after a promotion.
struct ServerIdentity {
  std::int64_t system_identifier = 0;
  std::string timeline{};
  std::string database{};

  friend bool operator==(const ServerIdentity&, const ServerIdentity&) = default;
};
Result<ServerIdentity> identify(Connection& connection);

// What is streamed.
struct Published {
  std::string publication{};
  std::int64_t table = 0;  // its oid; 0: it is published under its own name, like ours
};

// A text that changes when the publication changes, or when the table's schema changes and the
// publication has schemas in it: the stream may then be different. Empty: there is no
// publication.
Result<std::string> publication_mark(Connection& connection, const Published& what);
// The same as SQL, and the first parameters of its statement.
std::string publication_mark_sql(const Connection& connection);
Params publication_params(const Connection& connection, const Published& what);

// The lasting slot of a lane. The server was never told to forget anything after
// `reported`.
struct SlotRecord {
  std::string slot{};         // empty: none
  std::string timeline{};     // where it was used
  std::string publication{};  // its mark at that time
  WalPosition reported{};
  std::int64_t system_identifier = 0;  // of the server of the progress
};
Result<SlotRecord> load_slot_record(Reader& reader);

// Durable when it returns. stopped: another relay has taken the lane.
Status write_slot(Reader& reader, const SlotRecord& record);
Status write_reported(Reader& reader, WalPosition reported);

}  // namespace dovetail::postgres

// What dovetail.relay_lane says of how a lane reads the log.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "postgres/lane/reader.h"
#include "postgres/stream/position.h"

namespace dovetail::postgres {

// A database as it is told from others, and from itself after a standby has taken over.
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
  std::int64_t table = 0;  // its oid; 0: it is in the publication by its own name, as ours is
};

// Another text after anything about the publication was changed, or the table has changed its
// schema where schemas are in it: what is streamed through it may be something else then. Empty:
// there is none.
Result<std::string> publication_mark(Connection& connection, const Published& what);
// The same as an expression, and the first parameters of its statement.
std::string publication_mark_sql(const Connection& connection);
Params publication_params(const Connection& connection, const Published& what);

// The slot of a lane that stays between its starts. The server was never told to forget anything
// behind `reported`.
struct SlotRecord {
  std::string slot{};         // empty: none
  std::string timeline{};     // on which it was used
  std::string publication{};  // its mark then
  WalPosition reported{};
  std::int64_t system_identifier = 0;  // of the server that the progress belongs to
};
Result<SlotRecord> load_slot_record(Reader& reader);

// Durable when it returns. stopped: another relay has taken the lane over.
Status write_slot(Reader& reader, const SlotRecord& record);
Status write_reported(Reader& reader, WalPosition reported);

}  // namespace dovetail::postgres

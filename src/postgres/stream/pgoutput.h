// Messages of logical replication (pgoutput, protocol version 1): pure functions on bytes.
// They copy nothing and read only the given bytes; anything that is not a message is
// corrupt.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "dovetail/event.h"
#include "dovetail/result.h"
#include "postgres/stream/position.h"

namespace dovetail::postgres {

// What the server sends inside COPY: WAL data, or a keepalive.
struct WalData {
  WalPosition start;
  WalPosition server_end;
  WallTime sent_at{};     // by the server's clock
  std::string_view body;  // one message of pgoutput
};
struct Keepalive {
  WalPosition server_end;  // the server has examined the WAL up to here, and sent what was needed
  bool wants_reply = false;
};
Result<std::variant<WalData, Keepalive>> parse_copy_data(std::string_view bytes);

// Our answer: received up to `written`; nothing before `flushed` is needed again. `wants_reply`:
// asks the server for a keepalive.
std::string status_update(WalPosition written, WalPosition flushed, WallTime now,
                          bool wants_reply = false);

namespace pgoutput {

struct Begin {
  WalPosition commit;  // the WAL position of the transaction's commit
  WallTime committed_at{};
  std::uint32_t xid = 0;
};
struct Commit {
  WalPosition commit;
  WalPosition end;  // after the commit; if flushed up to here, it is not sent again
  WallTime committed_at{};
};
struct Column {
  std::string_view name;
  std::uint32_t type = 0;
};
// The form of a table's rows from now on.
struct Relation {
  std::uint32_t id = 0;
  std::string_view schema;
  std::string_view name;
  std::vector<Column> columns{};
};
struct Value {
  enum class Form : std::uint8_t { null, unchanged, text, binary };
  Form form = Form::null;
  std::string_view bytes{};
};
struct Insert {
  std::uint32_t relation = 0;
};
// From pg_logical_emit_message().
struct Message {
  bool transactional = false;
  WalPosition position;
  std::string_view prefix;
  std::string_view content;
};
// Origins, types, truncates, updates, deletes: ignored.
struct Other {
  char kind = 0;
};

using Decoded = std::variant<Begin, Commit, Relation, Insert, Message, Other>;

// Views point into `bytes`. Clears `values` and puts the columns of an insert there.
Result<Decoded> decode(std::string_view bytes, std::vector<Value>& values);

}  // namespace pgoutput
}  // namespace dovetail::postgres

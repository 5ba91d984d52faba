// The messages of logical replication, protocol version 1 of pgoutput, as pure functions over
// bytes: nothing is copied, nothing outside of the bytes is read, and what is no message is
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

// What the server sends inside COPY: a part of the log, or a sign of life.
struct WalData {
  WalPosition start;
  WalPosition server_end;
  WallTime sent_at{};     // by the server's clock
  std::string_view body;  // one message of pgoutput
};
struct Keepalive {
  WalPosition server_end;  // everything up to here was looked through, and sent if it was to be
  bool wants_reply = false;
};
Result<std::variant<WalData, Keepalive>> parse_copy_data(std::string_view bytes);

// What we answer: received up to `written`, and never needed again up to `flushed`. `wants_reply`:
// the server is to answer with a sign of life.
std::string status_update(WalPosition written, WalPosition flushed, WallTime now,
                          bool wants_reply = false);

namespace pgoutput {

struct Begin {
  WalPosition commit;  // where the commit of this transaction stands
  WallTime committed_at{};
  std::uint32_t xid = 0;
};
struct Commit {
  WalPosition commit;
  WalPosition end;  // behind the commit: what is flushed up to here is not sent again
  WallTime committed_at{};
};
struct Column {
  std::string_view name;
  std::uint32_t type = 0;
};
// How the rows of a table look from here on.
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
// Of pg_logical_emit_message().
struct Message {
  bool transactional = false;
  WalPosition position;
  std::string_view prefix;
  std::string_view content;
};
// Origins, types, truncates, updates, deletes: of no interest here.
struct Other {
  char kind = 0;
};

using Decoded = std::variant<Begin, Commit, Relation, Insert, Message, Other>;

// Views point into `bytes`. The columns of an insert are put into `values`, which it clears first.
Result<Decoded> decode(std::string_view bytes, std::vector<Value>& values);

}  // namespace pgoutput
}  // namespace dovetail::postgres

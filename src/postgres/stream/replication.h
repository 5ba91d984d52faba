// A connection that speaks the replication protocol.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/clock.h"
#include "core/handle.h"
#include "dovetail/result.h"
#include "postgres/stream/position.h"

extern "C" {
struct pg_conn;
void PQfreemem(void* bytes);
}

namespace dovetail::postgres {

struct CreatedSlot {
  WalPosition start;              // commits after it are streamed
  std::string exported_snapshot;  // a snapshot name: it shows everything before `start`, while this
                                  // connection is idle
};

struct StreamRequest {
  std::string slot;
  std::string publication;
  bool messages = false;  // also those of pg_logical_emit_message(), which our probe uses
  bool binary = true;     // values in binary form if the server can (14)
  WalPosition from{};     // commits before it are not sent; 0: from the slot's position
};

// A message in libpq's memory.
struct CopyBytes {
  Handle<char, PQfreemem> bytes{};
  std::size_t size = 0;
  std::string_view view() const { return {bytes.get(), size}; }
};

// One thread at a time. An error closes it.
class Replication {
 public:
  Replication() = default;
  // rejected: the role may not replicate, or a pooler is in between. unavailable: the server is
  // unreachable, or all its WAL senders are in use.
  static Result<Replication> open(const std::string& conninfo);

  explicit operator bool() const { return connection_ != nullptr; }
  // Gives up a slot that was asked for and not made yet.
  void close();
  int server_version() const;        // such as 150004
  std::int32_t backend_pid() const;  // of the server process for this connection
  // Asks the same server on another connection, for at most 2 s, whether it refuses clients because
  // it is stopping.
  bool is_server_stopping(const std::string& conninfo) const;

  // Asks for a slot; the server makes it when all current transactions have ended. A temporary slot
  // ends with this connection. `failover`: standbys keep it, too, if the server can (17).
  Status ask_for_slot(const std::string& name, bool temporary, bool failover);
  // nullopt: not yet. rejected: the server cannot; its text says why (wal_level, no free slot).
  Result<std::optional<CreatedSlot>> slot_made();

  // From the slot's position, or a later one. unavailable: the slot is in use, lost or gone.
  // rejected: this role may not use it.
  Status start(const StreamRequest& request);
  // The next message; empty: none has arrived. unavailable: the server has ended the stream, or the
  // slot is lost.
  Result<CopyBytes> receive();
  Status send_status(WalPosition written, WalPosition flushed, WallTime now,
                     bool wants_reply = false);
  int socket() const;
  // Sends waiting bytes as far as the socket takes them. False: some are left.
  Result<bool> send_rest();

 private:
  struct Close {
    void operator()(pg_conn* connection) const;
  };
  Status set_up();
  Error lost(const char* what);
  std::unique_ptr<pg_conn, Close> connection_;
};

}  // namespace dovetail::postgres

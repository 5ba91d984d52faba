// A connection that speaks the protocol of replication.
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
  WalPosition start;              // everything that commits behind it is streamed
  std::string exported_snapshot;  // by name: everything before it is visible there, while this
                                  // connection does nothing else
};

struct StreamRequest {
  std::string slot;
  std::string publication;
  bool messages = false;  // those of pg_logical_emit_message(), too: our probe is one
  bool binary = true;     // values in binary form, where the server can (14)
  WalPosition from{};     // what committed before is not sent; 0: from where the slot stands
};

// A message as libpq hands it over.
struct CopyBytes {
  Handle<char, PQfreemem> bytes{};
  std::size_t size = 0;
  std::string_view view() const { return {bytes.get(), size}; }
};

// One thread at a time. An error closes it.
class Replication {
 public:
  Replication() = default;
  // rejected: the role has no right to replicate, or something between us and the server does not
  // know how (a pooler). unavailable: the server is not there, or has no sender left.
  static Result<Replication> open(const std::string& conninfo);

  explicit operator bool() const { return connection_ != nullptr; }
  // A slot that was asked for and not made yet is given up.
  void close();
  int server_version() const;        // 150004
  std::int32_t backend_pid() const;  // of the process that serves us
  // Asks the very server that we reached, through a connection of its own and for 2 s at most,
  // whether it turns clients away because it stops.
  bool is_server_stopping(const std::string& conninfo) const;

  // Asks for a slot, which the server makes when the transactions of now have ended. A temporary
  // one ends with this connection. `failover`: standbys keep it, too, where the server can (17).
  Status ask_for_slot(const std::string& name, bool temporary, bool failover);
  // nullopt: not yet. rejected: the server cannot, and its text says why (wal_level, no slot free).
  Result<std::optional<CreatedSlot>> slot_made();

  // From where the slot stands, or a later position. unavailable: somebody else uses the slot, or
  // it is lost or gone. rejected: this role may not.
  Status start(const StreamRequest& request);
  // The next message; empty: none has arrived. unavailable: the server has ended the stream, or the
  // slot is lost.
  Result<CopyBytes> receive();
  Status send_status(WalPosition written, WalPosition flushed, WallTime now,
                     bool wants_reply = false);
  int socket() const;
  // Bytes that wait for the socket to take them. False: some are left.
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

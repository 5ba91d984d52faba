// A running WAL stream: one thread receives and answers the server, whatever the sink does; the
// relay's thread makes events of what has arrived.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "core/relay/source.h"
#include "postgres/outbox/progress.h"
#include "postgres/outbox/snapshot.h"
#include "postgres/stream/replication.h"
#include "postgres/stream/rows.h"

namespace dovetail::postgres {

struct WalStreamOptions {
  std::string conninfo;  // for asking whether the server is stopping
  // If the server is silent for this long although it is asked, it counts as lost.
  Duration silence_max = std::chrono::seconds(60);
  // Performance
  std::size_t buffer_bytes_max = 8 << 20;  // received, and not made into events yet
  Duration status_every = std::chrono::seconds(1);
};

// The relay's thread calls all of this; only the receiver has its own thread.
class WalStream {
 public:
  // `replication` is started. Events are counted in `progress`, which must outlive this.
  WalStream(Replication replication, std::unique_ptr<WalRows> rows, Progress& progress,
            Clock& clock, WalStreamOptions options);
  ~WalStream();

  // Like Source::read(). unavailable: the stream has ended; the text says why: the server is
  // stopping, the slot is lost, the connection broke. corrupt: this is not such a stream.
  Status read(Batch& out, const Limits& limits, std::stop_token stop);
  // Waits a moment for the end of a transaction whose events were all returned: only then do they
  // count. read() returns any error.
  void take_end();
  // Whether the receiver still runs; read() returns the same error.
  Status check() const;

  // Skips rows of transactions that this snapshot shows: they were read in another way. Positions
  // are not compared, because several rows can have the same.
  void leave_out(std::optional<Snapshot> shown);

  // Everything committed up to here was returned. Keepalives of the server move it,
  // too.
  WalPosition position() const;
  bool is_inside_transaction() const;
  // The end of the server's WAL at its last message.
  WalPosition server_end() const;
  // Whether read() has returned everything that had arrived since the last call: then the sink does
  // not hold the stream up.
  bool was_drained();

  // Lets the server forget everything before it; at most what is settled. The receiver sends it at
  // once.
  void report(WalPosition flushed);
  WalPosition reported() const;
  // Asks the server how far it is: it says nothing while it examines the WAL of others.
  void ask_for_sign();

  // The content of the last message with kProbePrefix; empty: none yet.
  const std::string& last_probe() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dovetail::postgres

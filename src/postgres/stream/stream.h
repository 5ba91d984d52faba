// A running stream of the log: a thread receives and answers the server, whatever the sink does,
// and the relay's thread makes events of what has arrived.
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
  std::string conninfo;  // to ask whether the server is about to stop
  // A server that says nothing for so long, although it is asked to, is taken for lost.
  Duration silence_max = std::chrono::seconds(60);
  // Performance
  std::size_t buffer_bytes_max = 8 << 20;  // received and not yet made events of
  Duration status_every = std::chrono::seconds(1);
};

// All but the receiver runs in one thread, that of the relay.
class WalStream {
 public:
  // `replication` was started. What is read is counted in `progress`, which outlives this.
  WalStream(Replication replication, std::unique_ptr<WalRows> rows, Progress& progress,
            Clock& clock, WalStreamOptions options);
  ~WalStream();

  // As Source::read(). unavailable: the stream has ended, and the text says why: the server stops,
  // the slot is lost, the connection broke. corrupt: what came is no such stream.
  Status read(Batch& out, const Limits& limits, std::stop_token stop);
  // Takes the end of a transaction all of whose events were handed out, for which it waits a
  // moment: only then do they count. An error is told by read().
  void take_end();
  // Whether the receiver still runs; the error is that of read().
  Status check() const;

  // Rows of transactions that this snapshot shows were handed out by other means, and are left out.
  // Nothing is compared with a position: several rows share one.
  void leave_out(std::optional<Snapshot> shown);

  // Everything that committed up to here was handed out. Moves with the server's signs of life,
  // too.
  WalPosition position() const;
  bool is_inside_transaction() const;
  // How far the server's log was when it last spoke.
  WalPosition server_end() const;
  // Whether read() has come to the end of what had arrived since this was last asked: then the
  // stream is not held up by the sink.
  bool was_drained();

  // Lets the server forget what is before it; what is settled, at most. Sent by the receiver at
  // once.
  void report(WalPosition flushed);
  WalPosition reported() const;
  // Has the server say how far it is, which it does not while it looks through what others write.
  void ask_for_sign();

  // The content of the last message that had kProbePrefix; empty: none came yet.
  const std::string& last_probe() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dovetail::postgres

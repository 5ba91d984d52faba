// The thread that receives a WAL stream and answers the server, even if the sink blocks.
#pragma once

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <thread>

#include "core/clock.h"
#include "postgres/stream/buffer.h"
#include "postgres/stream/replication.h"

namespace dovetail::postgres {

// The pgoutput letter of a stream message; 'k': a keepalive.
char kind_of(std::string_view message);

// Whether a transaction was sent long after its commit, for example while the server catches up.
// Both times are from the server's clock. If it seems sent before its commit, that clock was set
// back; the age is unknown, and it counts as old.
bool is_old(WallTime committed_at, WallTime sent_at);

// Called by one thread, the reader's. Ends with its stream, and then ends the buffer.
class WalReceiver {
 public:
  // `replication` is started. `conninfo`: for asking whether the server is stopping.
  WalReceiver(Replication replication, Clock& clock, WalBuffer& buffer, std::string conninfo,
              Duration status_every, Duration silence_max);
  WalReceiver(const WalReceiver&) = delete;
  WalReceiver& operator=(const WalReceiver&) = delete;
  // Sends the last report to the server and leaves. Waits at most 2 s.
  ~WalReceiver();

  // The buffer has room again.
  void go_on() const { ring(); }
  // Sent to the server at once.
  void report(WalPosition flushed);
  // Asks the server how far it is.
  void ask_for_sign();
  WalPosition reported() const { return {flushed_.load()}; }
  // The end of the server's WAL at its last message.
  WalPosition server_end() const { return {server_end_.load()}; }

 private:
  using Instant = std::chrono::steady_clock::time_point;

  void run(std::stop_token stop);
  Status round();
  Status receive_all();
  void look_at(std::string_view message);
  Status answer();
  Status send_status();
  Status look_for_end();
  Status look_for_silence();
  void wait();
  void count_wake(Instant now);
  void gather() const;
  void ring() const;

  Replication replication_;
  Clock& clock_;
  WalBuffer& buffer_;
  const std::string conninfo_;
  const Duration status_every_;
  const Duration silence_max_;
  const int bell_;  // rung by the reader

  // Used by the receiver only.
  bool is_full_ = false;
  bool is_reply_wanted_ = false;
  bool is_waited_for_ = false;  // the server asks, and we have not confirmed everything
  bool is_behind_ = false;      // received data is old now
  bool has_data_come_ = false;  // since the last request to the server
  WalPosition sent_flush_{};
  bool is_rest_unsent_ = false;
  Instant status_at_{};
  Instant sent_at_{};
  Instant ask_at_{};
  Instant woke_at_{};           // when the reader was last woken
  Instant wakes_paid_until_{};  // in the future if the reader was woken often
  Instant heard_at_ = std::chrono::steady_clock::now();

  std::atomic<bool> is_sign_wanted_{false};
  std::atomic<std::uint64_t> flushed_{0};
  std::atomic<std::uint64_t> server_end_{0};
  std::jthread thread_;
};

}  // namespace dovetail::postgres

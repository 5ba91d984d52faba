// The thread that receives a stream of the log and answers the server, whatever else stands still.
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

// The letter of pgoutput for a message of the stream; 'k': a sign of life.
char kind_of(std::string_view message);

// Whether a transaction was sent long after its commit, as when the server has much to catch up
// with. Both times are of the server's clock. One that was sent before its commit shows that this
// clock was set back meanwhile, and then nobody knows: it counts as old.
bool is_old(WallTime committed_at, WallTime sent_at);

// Its calls are for one thread, that of the reader. Ends with its stream, and then ends the buffer.
class WalReceiver {
 public:
  // `replication` was started; `conninfo`: to ask whether the server is about to stop.
  WalReceiver(Replication replication, Clock& clock, WalBuffer& buffer, std::string conninfo,
              Duration status_every, Duration silence_max);
  WalReceiver(const WalReceiver&) = delete;
  WalReceiver& operator=(const WalReceiver&) = delete;
  // Tells the server what was reported last, and leaves. Waits 2 s at most.
  ~WalReceiver();

  // The buffer has room again.
  void go_on() const { ring(); }
  // Told to the server at once.
  void report(WalPosition flushed);
  // Has the server answer with how far it is.
  void ask_for_sign();
  WalPosition reported() const { return {flushed_.load()}; }
  // How far the server's log was when it last spoke.
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

  // Of the receiver alone.
  bool is_full_ = false;
  bool is_reply_wanted_ = false;
  bool is_waited_for_ = false;  // the server asks, and we have not confirmed everything
  bool is_behind_ = false;      // what is received now is old
  bool has_data_come_ = false;  // since the server was last asked
  WalPosition sent_flush_{};
  bool is_rest_unsent_ = false;
  Instant status_at_{};
  Instant sent_at_{};
  Instant ask_at_{};
  Instant woke_at_{};           // when the reader was last woken
  Instant wakes_paid_until_{};  // later than now: it was woken often
  Instant heard_at_ = std::chrono::steady_clock::now();

  std::atomic<bool> is_sign_wanted_{false};
  std::atomic<std::uint64_t> flushed_{0};
  std::atomic<std::uint64_t> server_end_{0};
  std::jthread thread_;
};

}  // namespace dovetail::postgres

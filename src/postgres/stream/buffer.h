// Messages on their way from the thread that receives them to the one that reads them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string_view>
#include <vector>

#include "dovetail/result.h"
#include "postgres/stream/replication.h"

namespace dovetail::postgres {

// Two threads, each with its own half of the calls. Small messages lie together in chunks that are
// used again, and the lock is taken once for many of them.
class WalBuffer {
 public:
  explicit WalBuffer(std::size_t bytes_max) : bytes_max_(bytes_max) {}

  // The receiver's half.

  // False: so much waits that no more is to be received, until a call of pop() says that there is
  // room again.
  bool has_room();
  // Seen by the reader after hand_over().
  void put(CopyBytes message);
  // `urgent`: wakes a reader that waits; else it finds the messages when it looks next.
  void hand_over(bool urgent);
  // Behind everything that was handed over.
  void end(Error why);

  // The reader's half.

  // The next message, valid until pop(); nullopt: none is here.
  std::optional<std::string_view> front();
  // True: the receiver waits for room, and there is some now.
  [[nodiscard]] bool pop();
  // Waits for a message or the end. False: neither came until `until`, or before `stop`.
  bool wait(std::chrono::steady_clock::time_point until, const std::stop_token& stop);
  // Why no more will come; what was handed over before may still be here.
  std::optional<Error> ended() const;

 private:
  struct Chunk {
    std::vector<char> bytes{};
    std::vector<std::uint32_t> ends{};
    CopyBytes large{};  // instead, when a message is large
    std::size_t memory() const { return bytes.capacity() + large.size; }
    std::size_t messages() const { return large.bytes ? 1 : ends.size(); }
  };
  void enqueue();
  bool release();

  const std::size_t bytes_max_;
  Chunk filling_;              // of the receiver
  Chunk current_;              // of the reader
  std::size_t read_ = 0;       // messages of current_
  std::deque<Chunk> taken_{};  // of the reader

  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Chunk> queue_{};
  std::vector<Chunk> spare_{};
  std::size_t held_ = 0;  // bytes of all chunks between put() and pop()
  bool wants_room_ = false;
  bool is_awaited_ = false;
  std::optional<Error> ended_{};
};

}  // namespace dovetail::postgres

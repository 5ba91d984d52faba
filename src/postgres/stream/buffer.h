// Messages on their way from the receiving thread to the reading thread.
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

// For two threads, each with its half of the calls. Small messages share reused chunks, and one
// lock moves many of them.
class WalBuffer {
 public:
  explicit WalBuffer(std::size_t bytes_max) : bytes_max_(bytes_max) {}

  // The receiver's half.

  // False: the buffer is full; receive nothing until a call of pop() says that there is
  // room.
  bool has_room();
  // The reader sees it after hand_over().
  void put(CopyBytes message);
  // `urgent`: wakes a waiting reader; else the reader finds the messages when it looks next.
  void hand_over(bool urgent);
  // Comes after everything handed over before.
  void end(Error why);

  // The reader's half.

  // The next message, valid until pop(); nullopt: none is here.
  std::optional<std::string_view> front();
  // True: the receiver waits for room, and now there is some.
  [[nodiscard]] bool pop();
  // Waits for a message or the end. False: neither came before `until` or `stop`.
  bool wait(std::chrono::steady_clock::time_point until, const std::stop_token& stop);
  // Why no more will come; messages handed over before may still be here.
  std::optional<Error> ended() const;

 private:
  struct Chunk {
    std::vector<char> bytes{};
    std::vector<std::uint32_t> ends{};
    CopyBytes large{};  // a large message instead
    std::size_t memory() const { return bytes.capacity() + large.size; }
    std::size_t messages() const { return large.bytes ? 1 : ends.size(); }
  };
  void enqueue();
  bool release();

  const std::size_t bytes_max_;
  Chunk filling_;              // used by the receiver
  Chunk current_;              // used by the reader
  std::size_t read_ = 0;       // how many messages of current_ are read
  std::deque<Chunk> taken_{};  // used by the reader

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

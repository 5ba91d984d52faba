// A file with everything that a relay has delivered, in order. It outlives every process that
// writes it.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "core/relay/sink.h"
#include "kit/dying.h"

namespace dovetail::shop {

// The payload that writers give to an event of this key and version, so that each can be checked
// alone.
std::string payload_of(std::string_view key, std::int64_t version);

// A broker that takes some time: an event is in the file so long after it was submitted, and is
// confirmed then. One process dies in the middle of it: what it had not written to the end counts
// as not delivered.
//
//   sent     C4  a batch was submitted, and is not in the file
//   row      C4  so many events are in the file, and the rest of their batch is not
//   written  C2  a batch is in the file, and nobody has been told
class BookSink final : public Sink {
 public:
  static constexpr std::chrono::milliseconds kLatency{10};

  // `is_watched`: whether the process may die now.
  BookSink(std::string path, Doom& doom, std::function<bool()> is_watched)
      : path_(std::move(path)), doom_(doom), is_watched_(std::move(is_watched)) {}
  ~BookSink() override;

  Status open() override;
  Status submit(Events events) override;
  Result<bool> collect(std::span<Outcome> outcomes, Duration timeout) override;
  bool keeps_order_on_failure() const override { return true; }

 private:
  struct Submitted {
    std::vector<const Event*> events;
    std::chrono::steady_clock::time_point due;
  };
  Status write(const std::vector<const Event*>& events);

  const std::string path_;
  Doom& doom_;
  const std::function<bool()> is_watched_;
  int file_ = -1;
  std::deque<Submitted> submitted_{};
};

struct Delivery {
  EventId id;
  std::string key{};
  std::int64_t version = 0;
  bool intact = false;  // its payload is the published one
  int by = 0;           // the process id

  friend bool operator==(const Delivery&, const Delivery&) = default;
};

// Reads such a file while it grows. One thread.
class DeliveryBook {
 public:
  explicit DeliveryBook(std::string path) : path_(std::move(path)) {}

  void read_on();
  // The first delivery of each event, in order.
  const std::vector<Delivery>& first() const { return first_; }
  std::uint64_t repeated() const { return repeated_; }
  // How much this process has delivered, including repeats.
  std::uint64_t count_of(int process) const;

 private:
  struct Hash {
    std::size_t operator()(const EventId& id) const;
  };
  std::string path_;
  std::uint64_t offset_ = 0;
  std::vector<Delivery> first_{};
  std::unordered_set<EventId, Hash> seen_{};
  std::uint64_t repeated_ = 0;
  std::map<int, std::uint64_t> counts_{};
};

}  // namespace dovetail::shop

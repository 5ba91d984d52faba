// Events read together, with all their bytes in one arena.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "core/event/wide.h"
#include "dovetail/event.h"

namespace dovetail {

// Memory that does not move until clear(). clear() keeps it for the next use.
class Arena {
 public:
  std::string_view copy(std::string_view bytes);
  char* allocate(std::size_t bytes);
  void clear();
  std::size_t bytes_used() const { return used_; }

 private:
  struct Chunk {
    std::unique_ptr<char[]> bytes;
    std::size_t size;
  };
  std::vector<Chunk> chunks_;
  std::size_t current_ = 0;  // chunk being filled
  std::size_t filled_ = 0;   // bytes used in it
  std::size_t used_ = 0;
};

// For one thread. An Event of the batch is valid until the batch is cleared or destroyed.
class Batch {
 public:
  // Copies every view of `event` into the arena and computes its key_hash.
  Event& append(const Event& event);
  // The same for an event whose views already point into arena(), without another copy.
  Event& adopt(const Event& event);
  void clear();

  std::span<Event> events() { return events_; }
  std::span<const Event> events() const { return events_; }
  std::size_t size() const { return events_.size(); }
  bool empty() const { return events_.empty(); }
  std::size_t bytes() const { return arena_.bytes_used(); }
  Arena& arena() { return arena_; }

 private:
  std::vector<Event> events_;
  Arena arena_;
};

// The hash that spreads keys over lanes. Its values never change between builds and releases,
// because they decide which lane owns a key. 0 means "no key"; a key never hashes to 0.
std::uint64_t key_hash(std::string_view aggregate_type, std::string_view aggregate_id);

inline std::uint32_t lane_of(std::uint64_t hash, std::uint32_t lane_count) {
  return static_cast<std::uint32_t>(scale_below(hash, lane_count));
}

}  // namespace dovetail

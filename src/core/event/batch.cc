#include "core/event/batch.h"

#include <algorithm>
#include <cstring>

namespace dovetail {

namespace {
constexpr std::size_t kChunkBytes = 64 << 10;
}  // namespace

char* Arena::allocate(std::size_t bytes) {
  while (current_ < chunks_.size() && chunks_[current_].size - filled_ < bytes) {
    ++current_;
    filled_ = 0;
  }
  if (current_ == chunks_.size()) {
    const std::size_t size = std::max(bytes, kChunkBytes);
    chunks_.push_back(Chunk{std::make_unique_for_overwrite<char[]>(size), size});
    filled_ = 0;
  }
  char* start = chunks_[current_].bytes.get() + filled_;
  filled_ += bytes;
  used_ += bytes;
  return start;
}

std::string_view Arena::copy(std::string_view bytes) {
  if (bytes.empty()) return {};
  char* start = allocate(bytes.size());
  std::memcpy(start, bytes.data(), bytes.size());
  return {start, bytes.size()};
}

void Arena::clear() {
  // A chunk made for one large event seldom fits the next one; keeping such chunks would waste
  // memory.
  std::erase_if(chunks_, [](const Chunk& chunk) { return chunk.size > kChunkBytes; });
  current_ = 0;
  filled_ = 0;
  used_ = 0;
}

Event& Batch::append(const Event& event) {
  // One allocation keeps all text of the event together.
  constexpr std::string_view Event::* kFields[] = {
      &Event::topic,        &Event::aggregate_type, &Event::aggregate_id, &Event::type,
      &Event::content_type, &Event::headers,        &Event::payload,      &Event::defect};
  std::size_t bytes = 0;
  for (auto field : kFields) bytes += (event.*field).size();
  char* to = arena_.allocate(bytes);
  Event copy = event;
  for (auto field : kFields) {
    const std::string_view from = event.*field;
    if (!from.empty()) std::memcpy(to, from.data(), from.size());
    // An absent payload stays absent: it differs from an empty one.
    copy.*field = from.data() == nullptr ? std::string_view() : std::string_view(to, from.size());
    to += from.size();
  }
  return adopt(copy);
}

Event& Batch::adopt(const Event& event) {
  Event& copy = events_.emplace_back(event);
  copy.key_hash = key_hash(copy.aggregate_type, copy.aggregate_id);
  return copy;
}

void Batch::clear() {
  events_.clear();
  arena_.clear();
}

namespace {

std::uint64_t mix(std::uint64_t state, std::uint64_t word) {
  const Wide product = multiply_wide(state ^ word, 0x9e3779b97f4a7c15ULL);
  return static_cast<std::uint64_t>(product >> 64) ^ static_cast<std::uint64_t>(product) ^
         0xd6e8feb86659fd93ULL;
}

std::uint64_t mix_text(std::uint64_t state, std::string_view text) {
  const std::size_t length = text.size();
  while (text.size() >= 8) {
    std::uint64_t word = 0;
    for (std::size_t i = 0; i < 8; ++i) {
      word |= static_cast<std::uint64_t>(static_cast<unsigned char>(text[i])) << (8 * i);
    }
    state = mix(state, word);
    text.remove_prefix(8);
  }
  std::uint64_t tail = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    tail |= static_cast<std::uint64_t>(static_cast<unsigned char>(text[i])) << (8 * i);
  }
  return mix(mix(state, tail), length);
}

}  // namespace

std::uint64_t key_hash(std::string_view aggregate_type, std::string_view aggregate_id) {
  if (aggregate_id.empty()) return 0;
  const std::uint64_t hash =
      mix_text(mix_text(0x2545f4914f6cdd1dULL, aggregate_type), aggregate_id);
  return hash == 0 ? 1 : hash;
}

}  // namespace dovetail

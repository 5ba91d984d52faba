#include "postgres/stream/buffer.h"

#include <utility>

namespace dovetail::postgres {

namespace {
constexpr std::size_t kChunkBytes = 64 << 10;
constexpr std::size_t kLargeBytes = kChunkBytes / 2;
constexpr std::size_t kSpareChunks = 16;
}  // namespace

bool WalBuffer::has_room() {
  const std::lock_guard lock(mutex_);
  wants_room_ = held_ >= bytes_max_;
  return !wants_room_;
}

void WalBuffer::put(CopyBytes message) {
  if (message.size >= kLargeBytes) {
    hand_over(false);
    filling_.large = std::move(message);
    hand_over(true);
    return;
  }
  if (filling_.bytes.size() + message.size > kChunkBytes) hand_over(true);
  if (filling_.bytes.capacity() == 0) filling_.bytes.reserve(kChunkBytes);
  const std::string_view bytes = message.view();
  filling_.bytes.insert(filling_.bytes.end(), bytes.begin(), bytes.end());
  filling_.ends.push_back(static_cast<std::uint32_t>(filling_.bytes.size()));
}

void WalBuffer::hand_over(bool urgent) {
  if (filling_.messages() == 0) return;
  bool is_awaited = false;
  {
    const std::lock_guard lock(mutex_);
    enqueue();
    is_awaited = is_awaited_;
  }
  // Outside the lock, or the reader would block on it.
  if (is_awaited && urgent) arrived_.notify_one();
}

void WalBuffer::enqueue() {
  // Single messages must not fill the queue with almost empty chunks.
  Chunk* const last = queue_.empty() ? nullptr : &queue_.back();
  if (last != nullptr && !last->large.bytes && !filling_.large.bytes &&
      last->bytes.size() + filling_.bytes.size() <= kChunkBytes) {
    const auto before = static_cast<std::uint32_t>(last->bytes.size());
    last->bytes.insert(last->bytes.end(), filling_.bytes.begin(), filling_.bytes.end());
    for (const std::uint32_t end : filling_.ends) last->ends.push_back(before + end);
    filling_.bytes.clear();
    filling_.ends.clear();
    return;
  }
  held_ += filling_.memory();
  queue_.push_back(std::exchange(filling_, {}));
  if (spare_.empty()) return;
  filling_ = std::move(spare_.back());
  spare_.pop_back();
}

void WalBuffer::end(Error why) {
  hand_over(false);
  const std::lock_guard lock(mutex_);
  ended_ = std::move(why);
  arrived_.notify_one();
}

std::optional<std::string_view> WalBuffer::front() {
  if (read_ == current_.messages()) {
    if (taken_.empty()) {
      const std::lock_guard lock(mutex_);
      taken_.swap(queue_);
    }
    if (taken_.empty()) return std::nullopt;
    current_ = std::move(taken_.front());
    taken_.pop_front();
    read_ = 0;
  }
  if (current_.large.bytes) return current_.large.view();
  const std::size_t begin = read_ == 0 ? 0 : current_.ends[read_ - 1];
  return std::string_view(current_.bytes.data() + begin, current_.ends[read_] - begin);
}

bool WalBuffer::pop() { return ++read_ == current_.messages() && release(); }

bool WalBuffer::release() {
  Chunk chunk = std::exchange(current_, {});
  read_ = 0;
  const std::size_t memory = chunk.memory();
  chunk.large = {};
  chunk.bytes.clear();
  chunk.ends.clear();
  const std::lock_guard lock(mutex_);
  held_ -= memory;
  if (chunk.bytes.capacity() > 0 && spare_.size() < kSpareChunks)
    spare_.push_back(std::move(chunk));
  // Not at the first free byte, so that the server then sends much at once.
  return held_ <= bytes_max_ / 2 && std::exchange(wants_room_, false);
}

bool WalBuffer::wait(std::chrono::steady_clock::time_point until, const std::stop_token& stop) {
  const std::stop_callback wake(stop, [this] {
    const std::lock_guard lock(mutex_);
    arrived_.notify_one();
  });
  std::unique_lock lock(mutex_);
  is_awaited_ = true;
  const auto has_come = [this] { return !queue_.empty() || ended_; };
  arrived_.wait_until(lock, until, [&] { return has_come() || stop.stop_requested(); });
  is_awaited_ = false;
  return has_come();
}

std::optional<Error> WalBuffer::ended() const {
  const std::lock_guard lock(mutex_);
  return ended_;
}

}  // namespace dovetail::postgres

#include "core/sinks/key_order.h"

#include <utility>

#include "core/check.h"

namespace dovetail {

namespace {

constexpr std::size_t kKnownMax = 100'000;

}  // namespace

void KeyOrder::add_batch(std::uint64_t first_tag, Events events) {
  if (entries_.empty()) first_tag_ = first_tag;
  DOVETAIL_CHECK(first_tag == first_tag_ + entries_.size());
  const std::uint64_t number = failed_.number_batch();
  if (sizes_.empty()) oldest_batch_ = number;
  sizes_.push_back(events.size());
  for (const Event* const event : events) entries_.push_back({event, number});
}

const KeyOrder::Entry& KeyOrder::entry(std::uint64_t tag) const {
  DOVETAIL_CHECK(tag >= first_tag_ && tag - first_tag_ < entries_.size());
  return entries_[tag - first_tag_];
}

KeyOrder::Entry* KeyOrder::find(std::uint64_t tag) {
  if (tag < first_tag_ || tag - first_tag_ >= entries_.size()) return nullptr;
  return &entries_[tag - first_tag_];
}

KeyOrder::Turn KeyOrder::place(std::uint64_t tag, std::uint64_t channel) {
  Entry* const entry = find(tag);
  DOVETAIL_CHECK(entry != nullptr);
  const std::uint64_t hash = entry->event->key_hash;
  if (hash == 0) return Turn::now;
  if (failed_.block(hash, entry->batch)) {
    failed(tag);
    return Turn::never;
  }
  Key& key = keys_[hash];
  const bool is_first = key.waiting.empty() || key.waiting.front() == tag;
  const bool goes_with_others = first_ == First::together || key.is_known;
  const bool is_free = key.in_flight == 0 || (key.channel == channel && goes_with_others);
  if (!is_first || !is_free) {
    if (entry->state != State::waiting) key.waiting.push_back(tag);
    entry->state = State::waiting;
    return Turn::later;
  }
  if (entry->state == State::waiting) {
    key.waiting.pop_front();
    if (!key.waiting.empty()) due_.push_back(hash);
  }
  entry->state = State::in_flight;
  key.is_known = key.is_known && key.channel == channel;
  key.channel = channel;
  ++key.in_flight;
  return Turn::now;
}

// What waits behind it is due when nothing of the key is in flight, or when all of it comes back.
void KeyOrder::leave(std::uint64_t tag, Entry& entry, bool has_failed) {
  const State before = std::exchange(entry.state, State::done);
  const auto found = keys_.find(entry.event->key_hash);
  if (found == keys_.end()) return;
  Key& key = found->second;
  if (before == State::in_flight) --key.in_flight;
  if (before == State::waiting) {
    DOVETAIL_CHECK(key.waiting.front() == tag);
    key.waiting.pop_front();
  }
  if (key.in_flight > 0 && !has_failed) return;
  if (!key.waiting.empty())
    due_.push_back(found->first);
  else if (key.in_flight == 0 && !key.is_known)
    keys_.erase(found);
  if (keys_.size() > kKnownMax) forget_idle_keys();
}

void KeyOrder::forget_idle_keys() {
  std::erase_if(keys_, [](const auto& one) {
    return one.second.in_flight == 0 && one.second.waiting.empty();
  });
}

void KeyOrder::confirmed(std::uint64_t tag) {
  Entry* const entry = find(tag);
  if (entry == nullptr || entry->state != State::in_flight) return;
  if (const auto found = keys_.find(entry->event->key_hash); found != keys_.end())
    found->second.is_known = first_ == First::alone;
  leave(tag, *entry, false);
}

void KeyOrder::failed(std::uint64_t tag) {
  Entry* const entry = find(tag);
  if (entry == nullptr || entry->state == State::done) return;
  failed_.add(entry->event->key_hash, entry->batch);
  leave(tag, *entry, true);
}

bool KeyOrder::is_blocked(std::uint64_t tag) const {
  const Entry& one = entry(tag);
  return one.event->key_hash != 0 && failed_.block(one.event->key_hash, one.batch);
}

std::optional<std::uint64_t> KeyOrder::take_due() {
  while (!due_.empty()) {
    const auto found = keys_.find(due_.front());
    due_.pop_front();
    if (found != keys_.end() && !found->second.waiting.empty())
      return found->second.waiting.front();
  }
  return {};
}

void KeyOrder::collected() {
  DOVETAIL_CHECK(!sizes_.empty());
  const std::size_t size = sizes_.front();
  sizes_.pop_front();
  entries_.erase(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(size));
  first_tag_ += size;
  failed_.handed_out(oldest_batch_++);
}

void KeyOrder::clear() {
  entries_.clear();
  sizes_.clear();
  keys_.clear();
  due_.clear();
  failed_.clear();
}

}  // namespace dovetail

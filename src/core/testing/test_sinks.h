// For tests of sinks made of other sinks: inner sinks that do what the test says, and a small relay
// as a sink sees it.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/event/batch.h"
#include "core/relay/sink.h"
#include "core/testing/test_clock.h"
#include "kit/events.h"
#include "kit/ids.h"
#include "memory/sink.h"

namespace dovetail {

// Lets code share a sink that the test owns.
inline std::shared_ptr<Sink> borrowed(Sink& sink) { return {std::shared_ptr<void>{}, &sink}; }

// Events that live as long as the test. Their ids are numbers and contain no time.
class NumberedEvents {
 public:
  const Event* make(std::string_view key, std::string_view payload, std::string_view type = "t") {
    Event one = event_with("orders", key, payload);
    one.id = id_of(++made_, WallTime(), 0);
    one.position = static_cast<std::int64_t>(made_);
    one.type = type;
    one.created_at = {};
    return &events_.add(one);
  }

 private:
  std::uint64_t made_ = 0;
  TestEvents events_;
};

// A memory sink that reports as many batches as the test allows.
class HeldSink final : public Sink {
 public:
  static constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();

  explicit HeldSink(MemorySinkOptions options = {}) : memory(options) {}

  Status open() override {
    ++opens;
    submitted = 0;
    return memory.open();
  }
  Status submit(Events events) override {
    ++submitted;
    return memory.submit(events);
  }
  Result<bool> collect(std::span<Outcome> outcomes, Duration timeout) override {
    if (may_collect == 0) {
      waited += timeout;
      if (clock != nullptr) clock->advance(timeout);
      return false;
    }
    if (may_collect != kAll) --may_collect;
    auto known = memory.collect(outcomes, timeout);
    if (after_collect) after_collect();
    return known;
  }
  bool keeps_order_on_failure() const override { return memory.keeps_order_on_failure(); }

  std::vector<std::string> payloads() const {
    std::vector<std::string> all;
    for (const StoredEvent& one : memory.received()) all.push_back(one.payload);
    return all;
  }

  MemorySink memory;
  std::size_t may_collect = kAll;
  std::size_t opens = 0;
  std::size_t submitted = 0;  // batches since open()
  Duration waited{0};
  std::function<void()> after_collect{};
  TestClock* clock = nullptr;  // moves while the sink waits
};

inline bool is_safe(const Outcome& outcome) {
  return outcome.fate == Fate::confirmed || outcome.fate == Fate::duplicate;
}

inline std::vector<Fate> fates_of(const std::vector<Outcome>& outcomes) {
  std::vector<Fate> fates;
  for (const Outcome& outcome : outcomes) fates.push_back(outcome.fate);
  return fates;
}

// Collects the oldest batch, which must be ready in time.
inline std::vector<Outcome> collect_from(Sink& sink, std::size_t count,
                                         Duration timeout = Duration{0}) {
  std::vector<Outcome> outcomes(count);
  for (int i = 0; i < 1000; ++i) {
    const Result<bool> known = sink.collect(outcomes, timeout);
    EXPECT_TRUE(known) << (known ? "" : known.error().text);
    if (!known || *known) return outcomes;
  }
  ADD_FAILURE() << "the batch was not handed out";
  return outcomes;
}

// A random relay, as a sink sees it: many events of a key in flight, batches of any size, late
// collection. Behind an event that came back, it holds the key until everything submitted so far is
// collected.
class RandomRelay {
 public:
  RandomRelay(std::vector<const Event*> events, std::uint64_t seed)
      : random_(seed), slots_(events.begin(), events.end()) {}

  // One step; false when everything is settled. `open` is called after an error.
  template <class Open>
  bool step(Sink& sink, Open open) {
    if (settled_ == slots_.size()) return false;
    if (!is_open_) {
      is_open_ = open();
      return true;
    }
    const bool submits = in_flight_.size() < 4 && random_.chance(0.5);
    if (submits && submit(sink)) return true;
    if (!in_flight_.empty()) collect(sink);
    return true;
  }
  // Loses everything in memory, like a crash.
  void forget() {
    is_open_ = false;
    in_flight_.clear();
    held_.clear();
    for (Slot& slot : slots_) slot.is_in_flight = false;
    collected_ = submitted_;
  }
  std::uint64_t errors() const { return errors_; }
  std::uint64_t below(std::uint64_t bound) { return random_.below(bound); }
  bool chance(double probability) { return random_.chance(probability); }

 private:
  struct Slot {
    explicit Slot(const Event* given) : event(given) {}
    const Event* event;
    bool is_in_flight = false;
    bool is_settled = false;
  };

  bool submit(Sink& sink) {
    std::vector<const Event*> events;
    std::vector<std::size_t> batch;
    const std::size_t most = 1 + random_.below(8);
    for (std::size_t i = 0; i < slots_.size() && batch.size() < most; ++i) {
      Slot& slot = slots_[i];
      if (slot.is_settled || slot.is_in_flight) continue;
      const auto held = held_.find(slot.event->key_hash);
      if (slot.event->has_key() && held != held_.end()) {
        if (held->second > collected_) continue;
        held_.erase(held);
      }
      slot.is_in_flight = true;
      events.push_back(slot.event);
      batch.push_back(i);
    }
    if (batch.empty()) return false;
    ++submitted_;
    in_flight_.push_back(std::move(batch));
    if (!sink.submit(events)) lose();
    return true;
  }
  void collect(Sink& sink) {
    std::vector<Outcome> outcomes(in_flight_.front().size());
    const Result<bool> known = sink.collect(outcomes, Duration{random_.chance(0.5) ? 0 : 200});
    if (!known) return lose();
    if (!*known) return;
    ++collected_;
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      Slot& slot = slots_[in_flight_.front()[i]];
      slot.is_in_flight = false;
      if (is_safe(outcomes[i])) {
        slot.is_settled = true;
        ++settled_;
      } else {
        held_[slot.event->key_hash] = submitted_;
      }
    }
    in_flight_.pop_front();
  }
  void lose() {
    ++errors_;
    forget();
  }

  Random random_;
  std::vector<Slot> slots_;
  std::deque<std::vector<std::size_t>> in_flight_;
  std::map<std::uint64_t, std::uint64_t> held_;  // by key: until this many batches are collected
  std::uint64_t submitted_ = 0;
  std::uint64_t collected_ = 0;
  std::size_t settled_ = 0;
  std::uint64_t errors_ = 0;
  bool is_open_ = false;
};

// First arrivals of each key are in order of position, and none is missing.
inline void expect_all_in_order(const std::vector<StoredEvent>& received,
                                const std::vector<const Event*>& events) {
  std::map<EventId, int> times;
  std::map<std::string, EventId> last;
  for (const StoredEvent& one : received) {
    if (++times[one.id] > 1 || one.aggregate_id.empty()) continue;
    EventId& before = last[one.aggregate_id];
    EXPECT_LT(before, one.id) << "key " << one.aggregate_id;
    before = one.id;
  }
  for (const Event* event : events) EXPECT_TRUE(times.contains(event->id)) << event->payload;
}

}  // namespace dovetail

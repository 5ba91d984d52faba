// For tests of sinks that are made of other sinks: inner ones that do as they are told, and a relay
// reduced to what a sink sees of it.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "core/batch.h"
#include "core/sink.h"
#include "memory/sink.h"

namespace dovetail {

// Events that live as long as the test.
class TestEvents {
 public:
  const Event* make(std::string_view key, std::string_view payload, std::string_view type = "t") {
    Event one;
    const std::uint64_t number = ++made_;
    for (std::size_t i = 0; i < 8; ++i)
      one.id.bytes[15 - i] = static_cast<std::uint8_t>(number >> (8 * i));
    one.position = static_cast<std::int64_t>(number);
    one.topic = "orders";
    one.aggregate_type = "order";
    one.aggregate_id = key;
    one.type = type;
    one.content_type = "application/json";
    one.payload = payload;
    return &batches_.emplace_back().append(one);
  }

 private:
  std::uint64_t made_ = 0;
  std::deque<Batch> batches_;
};

// A memory sink that hands out as many batches as it may.
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
      return false;
    }
    if (may_collect != kAll) --may_collect;
    return memory.collect(outcomes, timeout);
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
};

inline bool is_safe(const Outcome& outcome) {
  return outcome.fate == Fate::confirmed || outcome.fate == Fate::duplicate;
}

inline std::vector<Fate> fates_of(const std::vector<Outcome>& outcomes) {
  std::vector<Fate> fates;
  for (const Outcome& outcome : outcomes) fates.push_back(outcome.fate);
  return fates;
}

// Collects the oldest batch, which must come.
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

}  // namespace dovetail

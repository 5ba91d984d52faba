// Reads a source as a relay does, for tests.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "core/relay/source.h"
#include "postgres/testing/test_database.h"

namespace dovetail::postgres {

using Payloads = std::vector<std::string>;

inline std::unique_ptr<Batch> read_some(Source& source, const Limits& limits) {
  auto batch = std::make_unique<Batch>();
  const Status done = source.read(*batch, limits, {});
  EXPECT_TRUE(done) << text_of(done);
  return batch;
}

inline void settle_all(Source& source, const Batch& batch) {
  EXPECT_TRUE(source.settle(batch, std::vector<Settled>(batch.size(), Settled::delivered)));
  EXPECT_TRUE(source.flush());
}

// Reads and settles until nothing comes.
inline Payloads take_all(Source& source, std::size_t events_max) {
  Payloads all;
  while (true) {
    const auto batch = read_some(source, {events_max, 1 << 20, std::chrono::milliseconds(50)});
    if (batch->empty()) return all;
    for (const Event& event : batch->events()) all.emplace_back(event.payload);
    settle_all(source, *batch);
  }
}

}  // namespace dovetail::postgres

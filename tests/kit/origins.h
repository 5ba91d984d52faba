// What the sources of an origin read.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <string_view>

#include "core/relay/source.h"
#include "dovetail/origin.h"
#include "host/host.h"
#include "kit/eventually.h"

namespace dovetail {

// Two sources in turn read the one event that is there, because nobody settles it.
inline void expect_to_read_twice(const Origin& origin, std::string_view payload,
                                 std::string_view type) {
  for (int round = 0; round < 2; ++round) {
    Result<std::unique_ptr<Source>> source = origin.make(system_clock(), std::chrono::seconds(3));
    ASSERT_TRUE(source && (*source)->open());
    Batch batch;
    ASSERT_TRUE(eventually([&] {
      EXPECT_TRUE((*source)->read(batch, Limits{10, 1 << 20, std::chrono::milliseconds(50)}, {}));
      return !batch.empty();
    })) << round;
    EXPECT_EQ(batch.events()[0].payload, payload);
    EXPECT_EQ(batch.events()[0].type, type);
  }
}

}  // namespace dovetail

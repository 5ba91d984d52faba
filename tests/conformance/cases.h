// What the suites share: names of cases, and ids that a test can tell.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "dovetail/event.h"

namespace dovetail::conformance {

template <class Case>
std::string case_name(const testing::TestParamInfo<Case>& info) {
  return info.param.name;
}

inline EventId numbered_id(std::uint64_t number) {
  EventId id;
  for (std::size_t i = 0; i < 8; ++i)
    id.bytes[15 - i] = static_cast<std::uint8_t>(number >> (8 * i));
  id.bytes[6] = 0x70;
  id.bytes[8] = 0x80;
  return id;
}

}  // namespace dovetail::conformance

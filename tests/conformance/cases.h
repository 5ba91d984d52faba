// Names of cases.
#pragma once

#include <gtest/gtest.h>

#include <string>

namespace dovetail::conformance {

template <class Case>
std::string case_name(const testing::TestParamInfo<Case>& info) {
  return info.param.name;
}

}  // namespace dovetail::conformance

// Results in one-line claims: EXPECT_TRUE(failed_with(x, Errc::rejected)) << text_of(x);
#pragma once

#include <string>
#include <string_view>

#include "dovetail/result.h"

namespace dovetail {

template <class T>
std::string text_of(const Result<T>& result) {
  return result ? "ok" : result.error().text;
}

template <class T>
bool failed_with(const Result<T>& result, Errc code) {
  return !result && result.error().code == code;
}

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace dovetail

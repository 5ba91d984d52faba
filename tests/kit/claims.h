// Claims with figures for tests on real servers, in a short and a long form, and the memory that a
// process uses.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

namespace dovetail::live {

// The short form runs in every test run, the long form in ./dev chaos.
inline bool is_long() {
  const char* given = std::getenv("DOVETAIL_CHAOS");
  return given != nullptr && *given != '\0';
}

// Prints one line with the figures, which ./dev chaos shows. The test fails if it does not
// hold.
[[gnu::format(printf, 2, 3)]] inline void claim(bool holds, const char* format, ...) {
  std::va_list values;
  va_start(values, format);
  std::string line(500, '\0');
  const int length = std::vsnprintf(line.data(), line.size(), format, values);
  va_end(values);
  line.resize(std::min(line.size() - 1, static_cast<std::size_t>(std::max(length, 0))));
  EXPECT_TRUE(holds) << line;
  std::printf("claim %s %s\n", holds ? "ok    " : "FAILED", line.c_str());
  std::fflush(stdout);
}

// VmRSS (now) or VmHWM (the maximum) of a process, in KiB; -1: it is gone.
inline std::int64_t memory_kib(const std::string& what, const std::string& process = "self") {
  std::ifstream status("/proc/" + process + "/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(what + ":")) return std::stoll(line.substr(what.size() + 1));
  return -1;
}

// A sanitizer keeps freed memory, so memory figures mean nothing there.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kMemoryIsOurs = false;
#else
inline constexpr bool kMemoryIsOurs = true;
#endif

using Seconds = std::chrono::duration<double>;

inline double milliseconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

// The value below which a share `q` of the values lies.
inline double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  const auto place = static_cast<std::ptrdiff_t>(q * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + place, values.end());
  return values[static_cast<std::size_t>(place)];
}

}  // namespace dovetail::live

// What the tests on real servers share: a short and a long form, claims with their figures, a relay
// that runs beside the test, and how much memory that takes.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "host/host.h"
#include "postgres/lanes.h"

namespace dovetail::live {

// The short form runs with every test, the long one by ./dev chaos.
inline bool is_long() {
  const char* given = std::getenv("DOVETAIL_CHAOS");
  return given != nullptr && *given != '\0';
}

// One readable line with the figures, which ./dev chaos shows; and a test that fails unless it
// holds.
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

// VmRSS (now) or VmHWM (the most there ever was) of a process, in KiB; -1: it is gone.
inline std::int64_t memory_kib(const std::string& what, const std::string& process = "self") {
  std::ifstream status("/proc/" + process + "/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(what + ":")) return std::stoll(line.substr(what.size() + 1));
  return -1;
}

// A sanitizer keeps what was freed, so that memory says nothing there.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kMemoryIsOurs = false;
#else
inline constexpr bool kMemoryIsOurs = true;
#endif

using Seconds = std::chrono::duration<double>;

inline double milliseconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

// The value below which the part `q` of them lies.
inline double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  const auto place = static_cast<std::ptrdiff_t>(q * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + place, values.end());
  return values[static_cast<std::size_t>(place)];
}

// Confirms everything, and tells of it first.
class TellingSink final : public Sink {
 public:
  using Tell = std::function<void(Events)>;
  explicit TellingSink(Tell tell) : tell_(std::move(tell)) {}
  Status open() override {
    submitted_ = 0;
    return {};
  }
  Status submit(Events events) override {
    tell_(events);
    ++submitted_;
    return {};
  }
  Result<bool> collect(std::span<Outcome> outcomes, Duration) override {
    if (submitted_ == 0) return false;
    --submitted_;
    for (Outcome& outcome : outcomes) outcome = Outcome{Fate::confirmed};
    return true;
  }
  bool keeps_order_on_failure() const override { return true; }

 private:
  Tell tell_;
  std::uint64_t submitted_ = 0;
};

// A relay in threads of its own until the end of the scope. `tell` is called from any of them, with
// each batch that is sent.
class RunningRelay {
 public:
  RunningRelay(postgres::LanesOptions options, TellingSink::Tell tell)
      : lanes_(with_log(std::move(options)), system_clock(),
               [tell = std::move(tell)](std::uint32_t) {
                 return std::make_unique<TellingSink>(tell);
               }),
        thread_([this](std::stop_token stop) {
          const Status ended = lanes_.run(stop);
          EXPECT_TRUE(ended) << (ended ? "" : ended.error().text);
        }) {}

  // What an operator would have read so far.
  std::string log() const {
    const std::lock_guard lock(mutex_);
    return log_;
  }

 private:
  postgres::LanesOptions with_log(postgres::LanesOptions options) {
    options.notify = [this](std::int32_t lane, const RelayNotice& notice) {
      const std::lock_guard lock(mutex_);
      log_ += std::to_string(lane) + " " + std::string(to_string(notice.kind)) + ": " +
              notice.text + "\n";
    };
    return options;
  }

  mutable std::mutex mutex_;
  std::string log_;
  postgres::Lanes lanes_;
  std::jthread thread_;  // last: it ends before the rest is gone
};

}  // namespace dovetail::live

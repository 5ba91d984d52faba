// A relay that runs beside the test and reports what it sends.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "host/host.h"
#include "postgres/lane/lanes.h"

namespace dovetail::live {

// Confirms everything, after it has reported it.
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

// A relay on its own threads until the end of the scope. Any of them calls `tell` with each sent
// batch.
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

  // What an operator would have read.
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
  std::jthread thread_;  // last: it ends before the other members
};

}  // namespace dovetail::live

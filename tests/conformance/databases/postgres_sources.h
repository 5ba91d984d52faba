// Sources over PostgreSQL with all that they need, for the suites.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <utility>

#include "conformance/source_suite.h"
#include "host/host.h"
#include "postgres/lane/reader.h"
#include "postgres/wal/source.h"

namespace dovetail::conformance {

// Each session has its own connection. `Inner` is built from a reader and the given arguments.
template <class Inner>
class OwningSource final : public Source {
 public:
  template <class... Rest>
  explicit OwningSource(postgres::Reader reader, Rest&&... rest)
      : reader_(std::move(reader)), source_(reader_, std::forward<Rest>(rest)...) {}

  Status open() override {
    reader_.connection.close();
    return source_.open();
  }
  Status read(Batch& out, const Limits& limits, std::stop_token stop) override {
    return source_.read(out, limits, stop);
  }
  Status settle(const Batch& batch, std::span<const Settled> fates) override {
    return source_.settle(batch, fates);
  }
  Status flush() override { return source_.flush(); }

 private:
  postgres::Reader reader_;
  Inner source_;
};

// From the WAL: what the windows return before is kept for later reads.
template <class Windows>
class OwningLogSource final : public Source {
 public:
  using MakeOptions = std::function<postgres::WalSourceOptions(Windows& windows)>;

  template <class... Rest>
  OwningLogSource(postgres::Reader reader, const MakeOptions& make_options, Rest&&... rest)
      : reader_(std::move(reader)),
        windows_(reader_, std::forward<Rest>(rest)...),
        options_(make_options(windows_)),
        source_(reader_, windows_, system_clock(), metrics_, options_) {}

  Status open() override {
    reader_.connection.close();
    early_.clear();
    DOVETAIL_TRY(source_.open());
    const auto end = std::chrono::steady_clock::now() + seconds(90);
    while (metrics_.streams == 0 && std::chrono::steady_clock::now() < end) {
      Batch batch;
      DOVETAIL_TRY(source_.read(batch, Limits{1, 1, milliseconds(5)}, {}));
      const bool is_all = batch.empty();
      if (!is_all) early_.push_back(std::move(batch));
      // No slot is made for a sink that accepts nothing.
      if (is_all && options_.reading.mode == postgres::ReadMode::automatic && !early_.empty())
        return {};
    }
    EXPECT_EQ(metrics_.streams, 1U);
    return {};
  }
  Status read(Batch& out, const Limits& limits, std::stop_token stop) override {
    DOVETAIL_TRY(source_.keep_alive());
    if (early_.empty()) return source_.read(out, limits, stop);
    do {
      out.append(early_.front().events()[0]);
      early_.pop_front();
    } while (!early_.empty() && out.size() < limits.events_max &&
             out.bytes() + early_.front().bytes() <= limits.bytes_max);
    return {};
  }
  Status settle(const Batch& batch, std::span<const Settled> fates) override {
    return source_.settle(batch, fates);
  }
  Status flush() override { return source_.flush(); }

 private:
  RelayMetrics metrics_;
  postgres::Reader reader_;
  Windows windows_;
  postgres::WalSourceOptions options_;
  postgres::WalSource source_;
  std::deque<Batch> early_;
};

}  // namespace dovetail::conformance

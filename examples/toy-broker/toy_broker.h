// A broker that is a file: what an adapter of a broker needs, and nothing else. See
// docs/ADD_A_BROKER.md. It includes the seam only: core/ and the public headers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "core/relay/sink.h"
#include "core/relay/source.h"

namespace dovetail::toy {

struct Options {
  std::string file{};                                  // the topic: one record for each message
  std::string group{};                                 // of a source: whose progress it is
  std::size_t record_bytes_max = 2 << 20;              // a larger event is rejected
  Duration look_every = std::chrono::milliseconds(5);  // for new records
};

// Appends each event as a record. A batch is written and flushed to disk before it is confirmed.
// One writer for each file.
class ToySink final : public Sink {
 public:
  explicit ToySink(Options options) : options_(std::move(options)) {}
  ~ToySink() override { disconnect(); }
  ToySink(const ToySink&) = delete;
  ToySink& operator=(const ToySink&) = delete;

  Status open() override;
  Status submit(Events events) override;
  Result<bool> collect(std::span<Outcome> outcomes, Duration timeout) override;
  // A refused event does not hold back what stands behind it in its batch. So the relay keeps one
  // event of a key in flight.
  bool keeps_order_on_failure() const override { return false; }

 private:
  void disconnect();

  const Options options_;
  int file_ = -1;
  std::deque<std::vector<Outcome>> submitted_;
};

// Reads records from where its group has settled. The position of an event is where the next
// record begins, so that it grows and says how far a reader is.
class ToySource final : public Source {
 public:
  explicit ToySource(Options options) : options_(std::move(options)) {}
  ~ToySource() override { disconnect(); }
  ToySource(const ToySource&) = delete;
  ToySource& operator=(const ToySource&) = delete;

  Status open() override;
  Status read(Batch& out, const Limits& limits, std::stop_token stop) override;
  Status settle(const Batch& batch, std::span<const Settled> fates) override;
  Status flush() override;

 private:
  void disconnect();
  std::string progress_file() const { return options_.file + "." + options_.group; }
  Status read_now(Batch& out, const Limits& limits);

  const Options options_;
  int file_ = -1;
  std::int64_t read_ = 0;
  std::int64_t settled_ = 0;
  std::int64_t written_ = 0;  // what the progress file has
};

}  // namespace dovetail::toy

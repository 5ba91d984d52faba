// Several sinks in a row: the inbox of a consumer, then its external
// handlers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "core/failure/failed_keys.h"
#include "core/relay/sink.h"

namespace dovetail {

// An event moves to the next stage when the stage before has confirmed it or knew it as a
// duplicate. Its outcome is the first other one, else that of the last stage that takes it;
// `confirmed` if no stage takes it. Batches pass each stage in the order of submission, several at
// a time, each in a different stage. After a failure in a stage, the next stages get neither that
// event nor later ones of its key. When they come again, the earlier stages know them as
// duplicates; so each stage except the last must recognise duplicates.
//
// An error of one stage is an error of the whole, because nothing could be settled without it. It
// owns the stages from open() on. One thread at a time.
class ChainedSink final : public Sink {
 public:
  struct Stage {
    std::shared_ptr<Sink> sink;
    // Which events the stage takes; others pass by in order. Empty: all.
    std::function<bool(const Event&)> takes{};
  };

  explicit ChainedSink(std::vector<Stage> stages);

  // Opens the last stage first: while an endpoint is unavailable, the inbox need not reconnect
  // again and again.
  Status open() override;
  Status submit(Events events) override;
  // Moves each stage on by at most one batch, so that the relay can check its lease.
  Result<bool> collect(std::span<Outcome> outcomes, Duration timeout) override;
  Status close() override;
  bool keeps_order_on_failure() const override;
  bool blocks() const override;

 private:
  struct Submitted {
    std::uint64_t number = 0;
    std::vector<const Event*> events{};
    std::vector<Outcome> outcomes{};
    std::vector<std::size_t> alive{};  // indexes of events without a failure so far
    std::vector<std::size_t> tried{};  // indexes of those that the current stage got
  };
  using Line = std::deque<std::unique_ptr<Submitted>>;

  Status enter(std::size_t stage, std::unique_ptr<Submitted> batch);
  Result<bool> advance(std::size_t stage, Duration timeout);
  void take_outcomes(Submitted& batch);
  Result<bool> advance_all(Duration timeout_each);
  bool hand_out(std::span<Outcome> outcomes);

  std::vector<Stage> stages_;
  std::vector<Line> lines_;  // per stage, the batches in it
  Line done_;                // past the last stage
  std::vector<std::unique_ptr<Submitted>> spare_;
  FailedKeys failed_;
  std::vector<const Event*> entering_;  // reused by enter()
  std::vector<Outcome> collected_;      // reused by advance()
};

}  // namespace dovetail

// Several sinks one after the other: the inbox of a consumer, then its handlers outside the
// transaction.
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

// An event goes to the next stage when the one before has confirmed it or knew it as a duplicate.
// Its fate is the first that is neither of these, else that of the last stage that takes it;
// `confirmed` when none does. Batches pass each stage in the order of submission, several of them
// at a time, each in a stage of its own. What fails in one stage is not tried in the next, nor is
// what stands behind it on its key; when it comes again, the stages before it know it as a
// duplicate, so each stage but the last must know its duplicates.
//
// An error of one stage is one of the whole: nothing would be settled without it anyway.
// The stages are its own from open() on. One thread at a time.
class ChainedSink final : public Sink {
 public:
  struct Stage {
    std::shared_ptr<Sink> sink;
    // Which events it takes; the others pass it by, in their order. Empty: all.
    std::function<bool(const Event&)> takes{};
  };

  explicit ChainedSink(std::vector<Stage> stages);

  // Opens the last stage first: while an endpoint is away, the inbox need not connect again and
  // again.
  Status open() override;
  Status submit(Events events) override;
  // Moves each stage on by one batch at most, so that the relay looks at its lease in between.
  Result<bool> collect(std::span<Outcome> outcomes, Duration timeout) override;
  Status close() override;
  bool keeps_order_on_failure() const override;
  bool blocks() const override;

 private:
  struct Submitted {
    std::uint64_t number = 0;
    std::vector<const Event*> events{};
    std::vector<Outcome> outcomes{};
    std::vector<std::size_t> alive{};  // indexes of those that nothing has gone wrong with
    std::vector<std::size_t> tried{};  // of those that the stage has where the batch is
  };
  using Line = std::deque<std::unique_ptr<Submitted>>;

  Status enter(std::size_t stage, std::unique_ptr<Submitted> batch);
  Result<bool> advance(std::size_t stage, Duration timeout);
  void take_outcomes(Submitted& batch);
  Result<bool> advance_all(Duration timeout_each);
  bool hand_out(std::span<Outcome> outcomes);

  std::vector<Stage> stages_;
  std::vector<Line> lines_;  // for each stage the batches that it has
  Line done_;                // past the last one
  std::vector<std::unique_ptr<Submitted>> spare_;
  FailedKeys failed_;
  std::vector<const Event*> entering_;  // scratch of enter()
  std::vector<Outcome> collected_;      // scratch of advance()
};

}  // namespace dovetail

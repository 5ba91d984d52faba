#include "core/sinks/chained_sink.h"

#include <algorithm>
#include <utility>

#include "core/check.h"

namespace dovetail {

ChainedSink::ChainedSink(std::vector<Stage> stages)
    : stages_(std::move(stages)), lines_(stages_.size()) {
  DOVETAIL_CHECK(!stages_.empty());
}

bool ChainedSink::keeps_order_on_failure() const {
  return std::all_of(stages_.begin(), stages_.end(),
                     [](const Stage& stage) { return stage.sink->keeps_order_on_failure(); });
}

// Closes each stage, even if another one fails.
Status ChainedSink::close() {
  Status result;
  for (const Stage& stage : stages_)
    if (Status closed = stage.sink->close(); !closed && result) result = std::move(closed);
  return result;
}

bool ChainedSink::blocks() const {
  return std::any_of(stages_.begin(), stages_.end(),
                     [](const Stage& stage) { return stage.sink->blocks(); });
}

Status ChainedSink::open() {
  for (Line& line : lines_) line.clear();
  done_.clear();
  failed_.clear();
  for (auto stage = stages_.rbegin(); stage != stages_.rend(); ++stage)
    DOVETAIL_TRY(stage->sink->open());
  return {};
}

Status ChainedSink::submit(Events events) {
  std::unique_ptr<Submitted> batch;
  if (spare_.empty()) {
    batch = std::make_unique<Submitted>();
  } else {
    batch = std::move(spare_.back());
    spare_.pop_back();
  }
  batch->number = failed_.number_batch();
  batch->events.assign(events.begin(), events.end());
  batch->outcomes.assign(events.size(), Outcome{Fate::confirmed, 0, {}, true});
  batch->alive.resize(events.size());
  for (std::size_t i = 0; i < events.size(); ++i) batch->alive[i] = i;
  return enter(0, std::move(batch));
}

// A batch without events for the stage still queues there; otherwise its events would overtake
// earlier ones in later stages.
Status ChainedSink::enter(std::size_t stage, std::unique_ptr<Submitted> batch) {
  batch->tried.clear();
  entering_.clear();
  std::erase_if(batch->alive, [&](std::size_t i) {
    const Event& event = *batch->events[i];
    if (failed_.block(event.key_hash, batch->number)) {
      batch->outcomes[i] = Outcome{Fate::again, 0, "not tried: an earlier event of its key failed"};
      return true;
    }
    if (!stages_[stage].takes || stages_[stage].takes(event)) {
      batch->tried.push_back(i);
      entering_.push_back(&event);
    }
    return false;
  });
  lines_[stage].push_back(std::move(batch));
  if (entering_.empty()) return {};
  return stages_[stage].sink->submit(entering_);
}

// True: the oldest batch has left the stage.
Result<bool> ChainedSink::advance(std::size_t stage, Duration timeout) {
  Line& line = lines_[stage];
  if (line.empty()) return false;
  if (!line.front()->tried.empty()) {
    collected_.assign(line.front()->tried.size(), Outcome{});
    Result<bool> known = stages_[stage].sink->collect(collected_, timeout);
    if (!known || !*known) return known;
    take_outcomes(*line.front());
  }
  std::unique_ptr<Submitted> batch = std::move(line.front());
  line.pop_front();
  if (stage + 1 == stages_.size()) {
    done_.push_back(std::move(batch));
  } else {
    DOVETAIL_TRY(enter(stage + 1, std::move(batch)));
  }
  return true;
}

void ChainedSink::take_outcomes(Submitted& batch) {
  bool any_failed = false;
  for (std::size_t i = 0; i < batch.tried.size(); ++i) {
    const std::size_t index = batch.tried[i];
    const Fate fate = collected_[i].fate;
    batch.outcomes[index] = std::move(collected_[i]);
    if (fate == Fate::confirmed || fate == Fate::duplicate) continue;
    failed_.add(batch.events[index]->key_hash, batch.number);
    any_failed = true;
  }
  if (!any_failed) return;
  std::erase_if(batch.alive, [&](std::size_t i) {
    return batch.outcomes[i].fate != Fate::confirmed && batch.outcomes[i].fate != Fate::duplicate;
  });
}

// Last stage first, so that each stage has room for the batch of the one before.
Result<bool> ChainedSink::advance_all(Duration timeout_each) {
  bool any = false;
  for (std::size_t stage = stages_.size(); stage-- > 0;) {
    const Result<bool> moved = advance(stage, timeout_each);
    if (!moved) return moved;
    any = any || *moved;
    if (any) timeout_each = Duration{0};
  }
  return any;
}

Result<bool> ChainedSink::collect(std::span<Outcome> outcomes, Duration timeout) {
  if (hand_out(outcomes)) return true;
  const Result<bool> moved = advance_all(Duration{0});
  if (!moved) return moved;
  if (hand_out(outcomes)) return true;
  const auto waiting =
      std::count_if(lines_.begin(), lines_.end(), [](const Line& line) { return !line.empty(); });
  if (*moved || waiting == 0 || timeout <= Duration{0}) return false;
  // Some sinks work only inside collect(), so every stage gets its share of the time.
  const Result<bool> moved_later = advance_all(timeout / waiting);
  if (!moved_later) return moved_later;
  return hand_out(outcomes);
}

bool ChainedSink::hand_out(std::span<Outcome> outcomes) {
  if (done_.empty()) return false;
  Submitted& batch = *done_.front();
  DOVETAIL_CHECK(outcomes.size() == batch.outcomes.size());
  std::move(batch.outcomes.begin(), batch.outcomes.end(), outcomes.begin());
  failed_.handed_out(batch.number);
  spare_.push_back(std::move(done_.front()));
  done_.pop_front();
  return true;
}

}  // namespace dovetail

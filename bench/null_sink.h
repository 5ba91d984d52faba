// A sink that costs nothing.
#pragma once

#include <deque>
#include <functional>

#include "core/relay/sink.h"

namespace dovetail::bench {

// Confirms everything at once.
class NullSink final : public Sink {
 public:
  Status open() override {
    sizes_.clear();
    return {};
  }
  Status submit(Events events) override {
    if (on_events) on_events(events);
    sizes_.push_back(events.size());
    return {};
  }
  Result<bool> collect(std::span<Outcome> outcomes, Duration) override {
    if (sizes_.empty()) return false;
    sizes_.pop_front();
    for (Outcome& outcome : outcomes) outcome.fate = Fate::confirmed;
    return true;
  }
  bool keeps_order_on_failure() const override { return true; }

  std::function<void(Events)> on_events;

 private:
  std::deque<std::size_t> sizes_;
};

}  // namespace dovetail::bench

// Posts alerts to the receiver of [alerts] until it has them.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>

#include "core/clock.h"
#include "core/event/batch.h"
#include "core/relay/sink.h"

namespace dovetail::console {

// One thread. An alert keeps its id over all tries, so that the receiver can tell a repeat.
class Pusher {
 public:
  using Warn = std::function<void(const std::string&)>;
  Pusher(std::unique_ptr<Sink> sink, Clock& clock, Warn warn);
  ~Pusher();

  // `type`: "dovetail.alert.raised". When too many wait, the oldest is dropped, with a warning.
  void add(std::string_view type, std::string payload);
  std::size_t waiting() const { return waiting_.size(); }
  // Works for about `limit`, or less if there is nothing to do.
  void work(Duration limit, const std::stop_token& stop);

 private:
  void post();
  void take(const Outcome& outcome);
  void try_later(const std::string& why);

  std::unique_ptr<Sink> sink_;
  Clock& clock_;
  const Warn warn_;
  std::deque<std::unique_ptr<Batch>> waiting_{};  // of one event each
  bool is_open_ = false;
  bool is_posted_ = false;  // the first one
  TimePoint retry_at_{};
  Duration pause_{};
};

}  // namespace dovetail::console

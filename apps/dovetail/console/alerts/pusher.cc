#include "console/alerts/pusher.h"

#include <algorithm>
#include <array>
#include <utility>

#include "host/host.h"

namespace dovetail::console {
namespace {

constexpr std::size_t kWaitingMax = 1000;
constexpr Duration kPauseMin = std::chrono::seconds(1);
constexpr Duration kPauseMax = std::chrono::minutes(1);
constexpr Duration kStep = std::chrono::milliseconds(100);

}  // namespace

Pusher::Pusher(std::unique_ptr<Sink> sink, Clock& clock, Warn warn)
    : sink_(std::move(sink)), clock_(clock), warn_(std::move(warn)) {}

Pusher::~Pusher() = default;

void Pusher::add(std::string_view type, std::string payload) {
  if (waiting_.size() >= kWaitingMax) {
    // The first one may be with the sink.
    waiting_.erase(waiting_.begin() + 1);
    warn_("an alert was dropped: the receiver has not taken any of the last " +
          std::to_string(kWaitingMax));
  }
  Event event;
  event.id = new_event_id();
  event.topic = "alerts";
  event.aggregate_type = "dovetail";
  event.aggregate_id = "alerts";
  event.type = type;
  event.content_type = "application/json";
  event.payload = payload;
  event.created_at = clock_.wall();
  waiting_.push_back(std::make_unique<Batch>());
  waiting_.back()->append(event);
}

void Pusher::try_later(const std::string& why) {
  if (pause_ == Duration::zero()) warn_("an alert could not be posted; it is tried again: " + why);
  pause_ = std::clamp(2 * pause_, kPauseMin, kPauseMax);
  retry_at_ = clock_.now() + pause_;
  is_open_ = is_posted_ = false;
}

void Pusher::post() {
  if (!is_open_) {
    if (const Status opened = sink_->open(); !opened) return try_later(opened.error().text);
    is_open_ = true;
  }
  const Event* const event = &waiting_.front()->events().front();
  const std::array<const Event*, 1> events{event};
  if (const Status submitted = sink_->submit(events); !submitted)
    return try_later(submitted.error().text);
  is_posted_ = true;
}

void Pusher::take(const Outcome& outcome) {
  is_posted_ = false;
  if (outcome.fate == Fate::rejected) {
    warn_("the receiver refused an alert: " + outcome.reason);
  } else if (outcome.fate != Fate::confirmed && outcome.fate != Fate::duplicate) {
    return try_later(outcome.reason);
  }
  waiting_.pop_front();
  pause_ = Duration{0};
}

void Pusher::work(Duration limit, const std::stop_token& stop) {
  const TimePoint end = clock_.now() + limit;
  while (!waiting_.empty() && !stop.stop_requested() && clock_.now() < end) {
    if (!is_posted_) {
      if (clock_.now() < retry_at_) return;
      post();
      continue;
    }
    std::array<Outcome, 1> outcomes{};
    const Result<bool> known = sink_->collect(outcomes, kStep);
    if (!known)
      try_later(known.error().text);
    else if (*known)
      take(outcomes[0]);
  }
}

}  // namespace dovetail::console

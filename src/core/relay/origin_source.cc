#include "core/relay/origin_source.h"

#include <algorithm>
#include <string>
#include <system_error>

#include "core/relay/own_positions.h"

namespace dovetail {

void OriginSource::drop() {
  quiet_since_us_ = 0;
  opening_.reset();
  source_.reset();
}

Status OriginSource::open() {
  drop();
  Result<std::unique_ptr<Source>> made = origin_.make(clock_, call_max_);
  if (!made) return fail(made.error());
  DOVETAIL_TRY(home_.open());
  if (auto* const numbers = dynamic_cast<OwnPositions*>(made->get()); numbers != nullptr) {
    const Result<std::int64_t> last = home_.last_parked();
    if (!last) return fail(last.error());
    numbers->begin_after(*last);
  }
  auto opening = std::make_shared<Opening>();
  opening->source = std::move(*made);
  opening_ = opening;
  try {
    run_beside_([opening = std::move(opening)] {
      Status opened = opening->source->open();
      const std::lock_guard lock(opening->mutex);
      opening->result = std::move(opened);
      opening->has_ended = true;
      opening->ended.notify_all();
    });
  } catch (const std::system_error& error) {
    return fail(Errc::unavailable, std::string("cannot start a thread: ") + error.what() +
                                       "; check the limit of threads");
  }
  return {};
}

Result<bool> OriginSource::opened(Duration timeout) {
  if (source_) return true;
  {
    std::unique_lock lock(opening_->mutex);
    if (!opening_->ended.wait_for(lock, timeout, [this] { return opening_->has_ended; }))
      return false;
    if (!opening_->result) return fail(opening_->result.error());
    source_ = std::move(opening_->source);
  }
  opening_.reset();
  moved();
  return true;
}

Status OriginSource::read(Batch& out, const Limits& limits, std::stop_token stop) {
  const std::size_t before = out.size();
  DOVETAIL_TRY(source_->read(out, limits, std::move(stop)));
  if (out.size() == before) return {};
  moved();
  if (keeps_topics_) return {};
  for (Event& event : out.events().subspan(before)) event.topic = {};
  return {};
}

Status OriginSource::settle(const Batch& batch, std::span<const Settled> fates) {
  DOVETAIL_TRY(source_->settle(batch, fates));
  const auto count = [&](Settled fate) {
    return static_cast<std::uint64_t>(std::count(fates.begin(), fates.end(), fate));
  };
  home_.add(fates.size(), count(Settled::parked), count(Settled::skipped));
  moved();
  return {};
}

Status OriginSource::flush() {
  if (!source_) return {};
  DOVETAIL_TRY(source_->flush());
  // The broker knows what is settled. Failing to write counts is not a reason to stop.
  const Status counted = home_.write();
  return !counted && counted.error().code == Errc::stopped ? counted : Status{};
}

std::optional<TimePoint> OriginSource::quiet_since() const {
  const std::int64_t since = quiet_since_us_;
  if (since == 0) return std::nullopt;
  return TimePoint{Duration{since}};
}

Status OriginLease::acquire() {
  source_.drop();
  return lease_.acquire();
}

Status OriginLease::release() {
  source_.drop();
  return lease_.release();
}

Status OriginLease::release_drained() {
  source_.drop();
  return lease_.release_drained();
}

}  // namespace dovetail

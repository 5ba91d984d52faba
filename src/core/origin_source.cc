#include "core/origin_source.h"

#include <algorithm>

namespace dovetail {

void OriginSource::drop() {
  quiet_since_us_ = 0;
  source_.reset();
}

Status OriginSource::open() {
  drop();
  Result<std::unique_ptr<Source>> made = origin_.make(clock_);
  if (!made) return fail(made.error());
  DOVETAIL_TRY(home_.open());
  DOVETAIL_TRY((*made)->open());
  source_ = std::move(*made);
  moved();
  return {};
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
  home_.add(fates.size(),
            static_cast<std::uint64_t>(std::count(fates.begin(), fates.end(), Settled::parked)));
  moved();
  return {};
}

Status OriginSource::flush() {
  DOVETAIL_TRY(source_->flush());
  // The broker knows what is settled. Counts that cannot be written now are no reason to stop.
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

}  // namespace dovetail

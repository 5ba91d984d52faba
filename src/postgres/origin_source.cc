#include "postgres/origin_source.h"

#include <algorithm>

namespace dovetail::postgres {

Status OriginSource::open() {
  drop();
  Result<std::unique_ptr<Source>> made = origin_.make(clock_);
  if (!made) return fail(made.error());
  DOVETAIL_TRY(progress_.open());
  DOVETAIL_TRY((*made)->open());
  source_ = std::move(*made);
  return {};
}

Status OriginSource::read(Batch& out, const Limits& limits, std::stop_token stop) {
  return source_->read(out, limits, std::move(stop));
}

Status OriginSource::settle(const Batch& batch, std::span<const Settled> fates) {
  DOVETAIL_TRY(source_->settle(batch, fates));
  progress_.add(fates.size(), static_cast<std::uint64_t>(
                                  std::count(fates.begin(), fates.end(), Settled::parked)));
  return {};
}

Status OriginSource::flush() {
  DOVETAIL_TRY(source_->flush());
  // The broker knows what is settled. Counts that cannot be written now are no reason to stop.
  const Status counted = progress_.write();
  return !counted && counted.error().code == Errc::stopped ? counted : Status{};
}

}  // namespace dovetail::postgres

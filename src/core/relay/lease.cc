#include "core/relay/lease.h"

#include "core/mutant.h"

namespace dovetail {

bool lease_is_free(const LeaseRow& row, TimePoint now) {
  return row.owner.empty() || row.expires <= now;
}

bool epoch_is_current(const LeaseRow& row, std::uint64_t epoch) {
  if (DOVETAIL_MUTANT(stale_epoch_accepted)) return true;
  return row.epoch == epoch && epoch != 0;
}

bool LeaseWatch::is_free(std::string_view sign, bool has_run_out, Duration term, TimePoint now) {
  if (sign != sign_) {
    has_seen_life_ = !sign_.empty();
    sign_ = sign;
    since_ = now;
  }
  if (DOVETAIL_MUTANT(store_clock_trusted)) return has_run_out;
  if (has_run_out && !has_seen_life_) return true;
  return now - since_ >= term + (has_run_out ? Duration{0} : term / 10);
}

}  // namespace dovetail

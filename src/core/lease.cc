#include "core/lease.h"

#include "core/mutant.h"

namespace dovetail {

bool lease_is_free(const LeaseRow& row, TimePoint now) {
  return row.owner.empty() || row.expires <= now;
}

bool epoch_is_current(const LeaseRow& row, std::uint64_t epoch) {
  if (DOVETAIL_MUTANT(stale_epoch_accepted)) return true;
  return row.epoch == epoch && epoch != 0;
}

}  // namespace dovetail

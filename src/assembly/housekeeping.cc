#include "assembly/housekeeping.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "assembly/database.h"

namespace dovetail::assembly {
namespace {

constexpr Duration kFirst = std::chrono::minutes(1);
constexpr Duration kAgain = std::chrono::seconds(5);  // if one round could not delete everything
constexpr std::size_t kRowsAtOnce = 20'000;

}  // namespace

Housekeeping::Housekeeping(std::vector<const config::StoreConfig*> stores,
                           config::RetentionConfig retention, Clock& clock, Tell tell)
    : stores_(std::move(stores)),
      retention_(retention),
      clock_(clock),
      tell_(std::move(tell)),
      due_(clock.now() + std::min(kFirst, retention.every)) {}

void Housekeeping::work() {
  const TimePoint now = clock_.now();
  if (now < due_) return;
  due_ = now + retention_.every;
  const Retention retention{.keep = retention_, .rows_max = kRowsAtOnce};
  for (const config::StoreConfig* store : stores_) {
    if (!retention_.wanted() && !store->type().needs_maintenance) continue;
    if (!store->unusable.empty()) continue;
    const auto report = database_of(*store)->prune(retention);
    if (report && !report->finished) due_ = std::min(due_, now + kAgain);
    tell_(*store, report, !report && !failed_.insert(store->name).second);
  }
}

}  // namespace dovetail::assembly

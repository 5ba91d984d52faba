// Maintenance that a process with relays does for its databases: deletes old rows by [retention],
// and prepares partitions.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "config/config.h"
#include "core/clock.h"
#include "core/operations.h"
#include "dovetail/result.h"

namespace dovetail::assembly {

class Housekeeping {
 public:
  // The result for one store. `again`: its failure was reported before.
  using Tell = std::function<void(const config::StoreConfig& store,
                                  const Result<PruneReport>& report, bool again)>;

  // The stores and the clock must outlive it.
  Housekeeping(std::vector<const config::StoreConfig*> stores, config::RetentionConfig retention,
               Clock& clock, Tell tell);

  // Works if it is time, which may take long. One thread.
  void work();

 private:
  std::vector<const config::StoreConfig*> stores_;
  config::RetentionConfig retention_;
  Clock& clock_;
  Tell tell_;
  std::set<std::string> failed_;  // stores with a reported failure
  TimePoint due_;
};

}  // namespace dovetail::assembly

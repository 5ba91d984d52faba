// What a process that runs relays does for its databases beside: deletes what retention lets go of,
// and keeps partitions ready.
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
  // What became of a store. `again`: that it failed was told before.
  using Tell = std::function<void(const config::StoreConfig& store,
                                  const Result<PruneReport>& report, bool again)>;

  // The stores and the clock outlive it.
  Housekeeping(std::vector<const config::StoreConfig*> stores, config::RetentionConfig retention,
               Clock& clock, Tell tell);

  // Works when it is time, and may take long. One thread.
  void work();

 private:
  std::vector<const config::StoreConfig*> stores_;
  config::RetentionConfig retention_;
  Clock& clock_;
  Tell tell_;
  std::set<std::string> failed_;  // stores of which that was told
  TimePoint due_;
};

}  // namespace dovetail::assembly

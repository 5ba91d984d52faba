#include "core/relay/server_run.h"

#include "core/mutant.h"

namespace dovetail {

bool is_same_run(std::string_view known, std::string_view now) {
  if (DOVETAIL_MUTANT(crash_not_noticed)) return true;
  return !now.empty() && known == now;
}

}  // namespace dovetail

// What operators do to relays, the same for every database.
#include <algorithm>
#include <utility>

#include "assembly/database.h"
#include "sql/relay_control.h"

namespace dovetail::assembly {

Result<RelayStatus> Database::find_relay(const std::string& name) {
  auto found = status();
  if (!found) return fail(found.error());
  const auto relay = std::find_if(found->relays.begin(), found->relays.end(),
                                  [&](const RelayStatus& one) { return one.name == name; });
  if (relay != found->relays.end()) return std::move(*relay);
  return fail(Errc::rejected, "no relay or consumer \"" + name +
                                  "\" has run on this store; check the name with `dovetail "
                                  "status`, and the store");
}

Result<ActionReport> Database::hold_relay(const std::string& relay, Hold wanted,
                                          const ActionRequest& request) {
  const auto now = find_relay(relay);
  if (!now) return fail(now.error());
  ActionReport report = plan_hold(*now, wanted);
  if (request.dry_run) return report;
  DOVETAIL_TRY(write_hold(relay, wanted, request.reason));
  report.is_done = true;
  return report;
}

}  // namespace dovetail::assembly

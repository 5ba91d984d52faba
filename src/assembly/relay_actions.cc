// What operators do to relays, the same for every database.
#include <algorithm>
#include <thread>
#include <utility>

#include "assembly/database.h"
#include "host/host.h"
#include "sql/operate/relay_plans.h"

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

// What is in flight finishes first, with the old owner: it must not arrive behind what comes next.
Result<ActionReport> Database::seek_relay(const std::string& relay, const SeekTo& to,
                                          const ActionRequest& request) {
  const auto now = find_relay(relay);
  if (!now) return fail(now.error());
  DOVETAIL_TRY(check_seek(*now));
  const Hold before = now->hold.hold;
  const auto planned = write_seek(relay, to, request.reason, before, true);
  if (!planned) return fail(planned.error());
  ActionReport report = plan_seek(*now, *planned);
  if (request.dry_run) return report;
  const bool pauses = !stops(before);
  if (pauses) DOVETAIL_TRY(write_hold(relay, Hold::paused, "to move it: " + request.reason));
  Status free = wait_until_free(relay, request.wait_max);
  Result<SeekCounts> done = free ? write_seek(relay, to, request.reason, before, false)
                                 : Result<SeekCounts>(fail(free.error()));
  if (!done) {
    const std::string why = "it was not moved: " + done.error().text;
    if (pauses) DOVETAIL_TRY(write_hold(relay, before, why));
    return fail(done.error());
  }
  report = plan_seek(*now, *done);
  report.is_done = true;
  return report;
}

Status Database::wait_until_free(const std::string& relay, Duration wait_max) {
  const TimePoint end = system_clock().now() + wait_max;
  while (true) {
    const auto owned = has_owner(relay);
    if (!owned) return fail(owned.error());
    if (!*owned) return {};
    if (system_clock().now() >= end)
      return fail(Errc::unavailable,
                  "the relay \"" + relay +
                      "\" still runs, so it was not moved; its processes may be of a version that "
                      "knows no pause, or hang: stop them, and try again");
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

Result<ActionReport> Database::rename_relay(const std::string& relay, const std::string& new_name,
                                            const ActionRequest& request) {
  const auto now = find_relay(relay);
  if (!now) return fail(now.error());
  DOVETAIL_TRY(check_rename(*now));
  ActionReport report = plan_rename(*now, new_name);
  if (request.dry_run) return report;
  const auto left = write_rename(relay, new_name, request.reason);
  if (!left) return fail(left.error());
  if (!left->empty()) report.consequences.push_back({"slot", *left});
  report.is_done = true;
  return report;
}

Result<ActionReport> Database::forget_relay(const std::string& relay,
                                            const ActionRequest& request) {
  const auto now = find_relay(relay);
  if (!now) return fail(now.error());
  DOVETAIL_TRY(check_forget(*now));
  ActionReport report = plan_forget(*now);
  if (request.dry_run) return report;
  const auto left = write_forget(relay, request.reason);
  if (!left) return fail(left.error());
  if (!left->empty()) report.consequences.push_back({"slot", *left});
  report.is_done = true;
  return report;
}

}  // namespace dovetail::assembly

#include "console/history/sampling.h"

#include <optional>
#include <vector>

namespace dovetail::console {
namespace {

// The history takes one sample of each step.
constexpr Duration kPause = std::chrono::seconds(2);

std::optional<double> known(bool is_known, double value) {
  return is_known ? std::optional<double>(value) : std::nullopt;
}

Measured measure(const Member& member, const app::Overview& overview) {
  Measured measured;
  const RelayMetrics& metrics = member.lane->metrics();
  measured.read = metrics.read.load();
  measured.confirmed = metrics.confirmed.load();
  measured.commit_to_confirm = metrics.commit_to_confirm.counts();
  for (const app::StoreView& view : overview.stores) {
    if (!view.status) continue;
    for (const assembly::RelayStatus& relay : view.status->relays) {
      if (relay.name != member.relay->name) continue;
      const bool is_known = app::knows_pending(relay);
      measured.pending = known(is_known, static_cast<double>(relay.pending));
      measured.oldest_age_us =
          known(is_known && relay.is_age_known, static_cast<double>(relay.oldest_age.count()));
      measured.parked = static_cast<double>(relay.parked);
      if (relay.reading && !relay.reading->slot.empty())
        measured.retained_wal_bytes = static_cast<double>(relay.reading->retained_wal);
    }
  }
  return measured;
}

}  // namespace

void sample_again_and_again(const Roster& roster, const Watcher& watcher, Clock& clock,
                            History& history, const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    const app::Overview overview = watcher.latest();
    for (const Member& member : roster.all())
      history.add(member.relay->name, measure(member, overview), clock.now(), clock.wall());
    clock.sleep(kPause, stop);
  }
}

}  // namespace dovetail::console

// A topic, for a comparison with an outbox.
#pragma once

#include <memory>
#include <string>

#include "core/reconcile/comparison.h"
#include "dovetail/result.h"
#include "kafka/options.h"

namespace dovetail::kafka {

// Reads every partition from `from` (by the time of its messages, an hour earlier to be safe) to
// its end of now, and sorts what it finds by event id: beyond 32 MiB in a temporary file. It joins
// no group and commits nothing. `topic`: without the prefix of the options. rejected: there is no
// such topic. Errc::stopped: `watch` said so.
Result<std::unique_ptr<reconcile::ReceiverScan>> scan_topic(const Options& options,
                                                            const std::string& topic, WallTime from,
                                                            const reconcile::Watch& watch);

}  // namespace dovetail::kafka

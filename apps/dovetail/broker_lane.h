// A relay that reads a broker and fills the mailbox of a SQLite store.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "brokers.h"
#include "core/routing.h"
#include "wiring.h"

namespace dovetail::app {

// The lease, the counts and the parked events live in `to`, under the relay's name. Of several
// processes one runs and the others stand by, whatever the broker's groups would allow: the file
// takes one writer at a time anyway, and so every broker's order holds. Without `topics`, events
// keep those that they came with. `from`, `kind` and `clock` must outlive the lane.
std::unique_ptr<Lane> make_broker_lane(const BrokerKind& kind, const ops::StoreConfig& from,
                                       const ops::StoreConfig& to, const ops::RelayConfig& relay,
                                       std::optional<TopicTemplate> topics, Clock& clock,
                                       std::function<void(const RelayNotice&)> notify);

}  // namespace dovetail::app

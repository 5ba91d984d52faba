// A relay that reads a broker.
#pragma once

#include <memory>

#include "assembly/brokers/brokers.h"
#include "assembly/wiring.h"

namespace dovetail::assembly {

// `home` keeps the lease, the counts and the parked events under the relay's name. One process runs
// and the others stand by, even if the broker's groups would allow more: so the order holds for
// every broker, also behind a parked event. `kind` and `clock` must outlive the lane.
std::unique_ptr<Lane> make_broker_lane(const BrokerKind& kind, LanePlan plan,
                                       std::unique_ptr<OriginStore> home, Clock& clock);

}  // namespace dovetail::assembly

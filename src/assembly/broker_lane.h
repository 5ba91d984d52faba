// A relay that reads a broker.
#pragma once

#include <memory>

#include "assembly/brokers/brokers.h"
#include "assembly/wiring.h"

namespace dovetail::assembly {

// The lease, the counts and the parked events live in `home`, under the relay's name. Of several
// processes one runs and the others stand by, whatever the broker's groups would allow: so every
// broker's order holds, also behind a parked event. `kind` and `clock` must outlive the lane.
std::unique_ptr<Lane> make_broker_lane(const BrokerKind& kind, LanePlan plan,
                                       std::unique_ptr<OriginStore> home, Clock& clock);

}  // namespace dovetail::assembly

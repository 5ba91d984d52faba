// What every store of the config file knows of one event.
#pragma once

#include <chrono>

#include "config/config.h"
#include "core/clock.h"
#include "core/life/life.h"
#include "dovetail/result.h"

namespace dovetail::assembly {

// Asks every database, and then each broker that a relay has sent the event to, for about
// `each_broker_max`; 0: no broker. A store that was not asked, or does not answer, is named in the
// facts, and the others are asked; an error means that no database has answered. The payload is
// read only to compare its digest.
Result<life::Facts> gather_life(const config::Config& config, const EventId& id,
                                Duration each_broker_max = std::chrono::seconds(5));

}  // namespace dovetail::assembly

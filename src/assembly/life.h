// What every store of the config file knows of one event.
#pragma once

#include <string_view>

#include "config/config.h"
#include "core/life/life.h"
#include "dovetail/result.h"

namespace dovetail::assembly {

// Asks every database, and every broker that can be asked. A store that does not answer is named in
// the facts, and the others are asked; an error means that none has answered. The payload is read
// only to compare its digest.
Result<life::Facts> gather_life(const config::Config& config, const EventId& id);

}  // namespace dovetail::assembly

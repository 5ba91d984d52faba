// One event in a topic, for its life.
#pragma once

#include <span>

#include "core/life/life.h"
#include "dovetail/result.h"
#include "kafka/options.h"

namespace dovetail::kafka {

// Reads the noted ranges, the first ones first, until it finds the event, for about `time_max`. It
// joins no group and commits nothing. Topics are without the prefix of the options.
Result<life::BrokerAnswer> find_event(const Options& options, const EventId& id,
                                      std::span<const PlaceRange> places, Duration time_max);

}  // namespace dovetail::kafka

// What is unsafe about a Redis server, for those who publish to it and those who read from it.
#pragma once

#include <cstddef>
#include <vector>

#include "core/operations.h"
#include "dovetail/result.h"
#include "redis/options.h"

namespace dovetail::redis {

// Asks and changes nothing. Looks at groups where `options` names streams and a group, as for a
// source. unavailable: the server does not answer. How others trim their streams cannot be seen;
// that they did so before the group has read, can.
// `payload_bytes_max`: that may be published; 0: not known.
Result<std::vector<Finding>> examine(const Options& options, Clock& clock,
                                     std::size_t payload_bytes_max = 0);

// A stream keeps what nobody deletes: unless settled entries are deleted, they come again whenever
// a group begins anew. Asks nobody.
std::vector<Kept> retention(const Options& options);

}  // namespace dovetail::redis

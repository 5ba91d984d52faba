// What is unsafe about a Redis server for publishers and consumers.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "core/findings.h"
#include "core/operations.h"
#include "dovetail/result.h"
#include "redis/options.h"

namespace dovetail::redis {

// Only reads. Checks groups if `options` names streams and a group, as for a source. It cannot see
// how other programs trim streams, but it can see that they trimmed before the group had read.
// `payload_bytes_max`: the largest that may be published; 0: unknown. unavailable: the server does
// not answer.
Result<std::vector<Finding>> examine(const Options& options, Clock& clock,
                                     std::size_t payload_bytes_max = 0);

// Adds what the answer to INFO says: "name:value" in each line.
void parse_info(std::string_view text, Facts& facts);

// A stream keeps entries until they are deleted. Unless settled entries are deleted, they come
// again when a group starts anew. Does not connect.
std::vector<Kept> retention(const Options& options);

}  // namespace dovetail::redis

// The document of `dovetail status --json`, which the JSON API gives, too.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "overview/problems.h"

namespace dovetail::app {

using Json = nlohmann::ordered_json;

Json json_of(const Problem& problem);
Json json_of(const Verdict& verdict);
Json status_json(const Overview& overview, const std::vector<Problem>& problems);

}  // namespace dovetail::app

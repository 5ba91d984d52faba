// Every metric of a daemon.
#pragma once

#include <string>
#include <vector>

#include "console/metrics/samples.h"
#include "console/roster.h"
#include "overview/problems.h"

namespace dovetail::console {

// What the relays and consumers of this process have counted since it began.
void add_members(Samples& samples, const std::vector<Member>& members);
// What the databases said last. What one of them does not say has no sample.
void add_stores(Samples& samples, const app::Overview& overview);
// How many problems of each kind there are; kinds without any have 0.
void add_problems(Samples& samples, const std::vector<app::Problem>& problems);
void add_build(Samples& samples, const std::string& version);

}  // namespace dovetail::console

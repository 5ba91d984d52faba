// Judges the history of one simulation against the truth, the business table.
#pragma once

#include "simulation/simulation.h"

namespace dovetail::sim {

// Adds violations to the world.
void check(Simulation& simulation);

}  // namespace dovetail::sim

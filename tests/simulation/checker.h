// Judges the history of one simulation. The ground truth is the business table.
#pragma once

#include "simulation/simulation.h"

namespace dovetail::sim {

// Adds what it finds to the world's violations.
void check(Simulation& simulation);

}  // namespace dovetail::sim

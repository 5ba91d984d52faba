// Reconcile over HTTP: a job that compares an outbox with an inbox or a topic, and its report.
#pragma once

#include <memory>
#include <vector>

#include "console/api/desk.h"
#include "console/route.h"

namespace dovetail::console {

std::vector<Route> job_routes(const std::shared_ptr<Desk>& desk);

}  // namespace dovetail::console

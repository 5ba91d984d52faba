// What is unsafe about sending to an endpoint, or about serving one.
#pragma once

#include <vector>

#include "core/clock.h"
#include "core/operations.h"
#include "dovetail/result.h"
#include "webhook/options.h"

namespace dovetail::http {

// Asks the endpoint for its abilities (OPTIONS) without sending an event. `confirm_timeout`: the
// relay's; 0: unknown. unavailable: it does not answer, or TLS fails; the text says why.
Result<std::vector<Finding>> examine(const SinkOptions& options, Duration confirm_timeout,
                                     Clock& clock);

// Checks the options only.
Result<std::vector<Finding>> examine(const SourceOptions& options);

}  // namespace dovetail::http

// What is unsafe about sending to an endpoint, or about being one.
#pragma once

#include <vector>

#include "core/clock.h"
#include "core/operations.h"
#include "dovetail/result.h"
#include "webhook/options.h"

namespace dovetail::http {

// Asks the endpoint what it can do (OPTIONS), and sends no event. `confirm_timeout`: the relay's,
// 0 where none is known. unavailable: it does not answer, or TLS fails; the text says why.
Result<std::vector<Finding>> examine(const SinkOptions& options, Duration confirm_timeout,
                                     Clock& clock);

// Looks at the options alone.
Result<std::vector<Finding>> examine(const SourceOptions& options);

}  // namespace dovetail::http

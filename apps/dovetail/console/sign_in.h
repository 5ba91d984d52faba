// Signing in: a browser gives a token once and keeps a cookie that no script can read.
#pragma once

#include <vector>

#include "console/guard.h"
#include "console/route.h"
#include "console/tokens.h"
#include "core/clock.h"

namespace dovetail::console {

// Adds /api/v1/session: GET says who asks, POST signs in, DELETE signs out. All outlive the table.
std::vector<Route> with_sign_in(std::vector<Route> routes, const Guard& guard, const Tokens& tokens,
                                Clock& clock);

}  // namespace dovetail::console

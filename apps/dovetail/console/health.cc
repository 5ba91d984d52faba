#include "console/health.h"

namespace dovetail::console {

std::vector<Route> health_routes() {
  return {{"GET", "/livez", Role::nobody, Route::Kind::reads,
           [](const Request&, const Identity&) { return json_reply("{\"alive\": true}"); },
           Route::Where::listener}};
}

}  // namespace dovetail::console

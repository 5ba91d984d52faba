#include "console/api/api.h"

#include <iterator>
#include <utility>

#include "console/api/audit.h"
#include "console/api/daemon.h"
#include "console/api/events.h"
#include "console/api/parked.h"
#include "console/api/stores.h"
#include "console/jobs/comparison.h"
#include "console/orders/orders.h"
#include "console_openapi.h"

namespace dovetail::console {

std::vector<Route> api_routes(const std::shared_ptr<Desk>& desk) {
  std::vector<Route> all{
      {"GET", "/api/v1/openapi.json", Role::nobody, Route::Kind::reads,
       [](const Request&, const Identity&) { return json_reply(std::string(kOpenApi)); },
       Route::Where::listener}};
  for (auto&& some : {daemon_routes(desk), event_routes(desk), parked_routes(desk),
                      store_routes(desk), audit_routes(desk), order_routes(desk), job_routes(desk)})
    all.insert(all.end(), some.begin(), some.end());
  return all;
}

}  // namespace dovetail::console

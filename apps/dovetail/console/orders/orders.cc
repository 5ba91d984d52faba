#include "console/orders/orders.h"

#include <nlohmann/json.hpp>

#include "assembly/database.h"
#include "console/api/call.h"

namespace dovetail::console {
namespace {

Json json_of(const std::string& relay, const ActionReport& report) {
  Json consequences = Json::array();
  for (const Consequence& one : report.consequences)
    consequences.push_back({{"kind", one.kind}, {"text", one.text}});
  return {{"relay", relay},
          {"dry_run", !report.is_done},
          {"consequences", consequences},
          {"pending", report.pending},
          {"parked", report.parked},
          {"waiting", report.waiting}};
}

Expected<Json> hold(const Desk& desk, const Request& request, const Identity& who, Hold wanted) {
  const auto body = body_of(request, {"reason", "dry_run"});
  if (!body) return tl::unexpected(body.error());
  const auto dry_run = flag_in(*body, "dry_run");
  if (!dry_run) return tl::unexpected(dry_run.error());
  const auto reason = *dry_run ? text_in(*body, "reason") : reason_in(*body);
  if (!reason) return tl::unexpected(reason.error());
  const std::string& name = request.places.find("name")->second;
  for (const config::RelayConfig* relay : desk.config.readers()) {
    if (relay->name != name) continue;
    const config::StoreConfig& home = assembly::home_of(*relay, desk.config);
    const auto done = assembly::database_of(home)->hold_relay(
        name, wanted, {.reason = spoken_reason(request, who, *reason), .dry_run = *dry_run});
    if (!done) return app::refuse_in(home, done.error());
    return json_of(name, *done);
  }
  return refuse(Exit::negative, "the config has no relay and no consumer \"" + name + "\"");
}

Route order(const std::shared_ptr<Desk>& desk, const std::string& verb, Hold wanted) {
  return {"POST", "/api/v1/relays/{name}/" + verb, Role::operator_, Route::Kind::changes,
          answering([desk, wanted](const Request& request, const Identity& who) {
            return hold(*desk, request, who, wanted);
          })};
}

}  // namespace

std::vector<Route> order_routes(const std::shared_ptr<Desk>& desk) {
  return {order(desk, "pause", Hold::paused), order(desk, "drain", Hold::draining),
          order(desk, "resume", Hold::none)};
}

}  // namespace dovetail::console

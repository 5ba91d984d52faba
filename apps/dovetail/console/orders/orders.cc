#include "console/orders/orders.h"

#include <functional>
#include <nlohmann/json.hpp>

#include "assembly/database.h"
#include "console/api/call.h"
#include "console/listener.h"
#include "documents/orders.h"

namespace dovetail::console {
namespace {

using assembly::Database;
using config::StoreConfig;

// For the processes of a relay to let go of it. The client waits no longer than kPatience, and the
// rest of the work comes on top.
constexpr Duration kWaitMax = std::chrono::seconds(15);
static_assert(kWaitMax * 2 <= kPatience);

// What an order says beside its reason.
struct Order {
  std::string relay{};
  std::string to{};        // seek
  std::string new_name{};  // rename
};

struct Verb {
  const char* name = "";
  const char* wants = nullptr;  // one more name of the body
  Role role = Role::operator_;
  // usage, rejected: the order does not fit the config.
  std::function<Expected<bool>(const config::Config& config, const Order& order)> check{};
  std::function<Result<ActionReport>(Database& home, const Order& order,
                                     const ActionRequest& request)>
      act{};
};

// The database that keeps the relay: the one that is named, or else by the config.
Expected<const StoreConfig*> home_for(const config::Config& config, const std::string& name,
                                      const std::string& store) {
  if (!store.empty()) {
    const auto named = databases_of(config, store);
    if (!named) return tl::unexpected(named.error());
    return named->front();
  }
  for (const config::RelayConfig* relay : config.readers())
    if (relay->name == name) return &assembly::home_of(*relay, config);
  return refuse(Exit::negative, "the config has no relay and no consumer \"" + name +
                                    "\"; for one that is no longer there, name its store");
}

Expected<Json> obey(const Desk& desk, const Verb& verb, const Request& request,
                    const Identity& who) {
  const auto body = body_of(request, {"store", "reason", "dry_run", verb.wants});
  if (!body) return tl::unexpected(body.error());
  const auto dry_run = flag_in(*body, "dry_run");
  if (!dry_run) return tl::unexpected(dry_run.error());
  const auto reason = *dry_run ? text_in(*body, "reason") : reason_in(*body);
  if (!reason) return tl::unexpected(reason.error());
  const auto store = text_in(*body, "store");
  if (!store) return tl::unexpected(store.error());
  Order order{request.places.find("name")->second};
  for (const auto& [name, into] : {std::pair{"to", &order.to}, {"new_name", &order.new_name}}) {
    auto text = text_in(*body, name);
    if (!text) return tl::unexpected(text.error());
    *into = std::move(*text);
  }
  const auto home = home_for(desk.config, order.relay, *store);
  if (!home) return tl::unexpected(home.error());
  if (const auto checked = verb.check(desk.config, order); !checked)
    return tl::unexpected(checked.error());
  const auto done = verb.act(
      *assembly::database_of(**home), order,
      {.reason = spoken_reason(request, who, *reason), .dry_run = *dry_run, .wait_max = kWaitMax});
  if (!done) return app::refuse_in(**home, done.error());
  return app::json_of(order.relay, verb.name, *done);
}

Expected<bool> fits(const config::Config&, const Order&) { return true; }

Verb hold(const char* name, Hold wanted) {
  return {name, "reason", Role::operator_, fits,
          [wanted](Database& home, const Order& order, const ActionRequest& request) {
            return home.hold_relay(order.relay, wanted, request);
          }};
}

Verb seek() {
  return {"seek", "to", Role::operator_,
          [](const config::Config&, const Order& order) -> Expected<bool> {
            const auto to = app::parse_seek(order.to);
            if (!to) return tl::unexpected(to.error());
            return true;
          },
          [](Database& home, const Order& order, const ActionRequest& request) {
            return home.seek_relay(order.relay, *app::parse_seek(order.to), request);
          }};
}

Verb rename() {
  return {"rename", "new_name", Role::admin,
          [](const config::Config& config, const Order& order) {
            return app::check_new_name(config, order.relay, order.new_name);
          },
          [](Database& home, const Order& order, const ActionRequest& request) {
            return home.rename_relay(order.relay, order.new_name, request);
          }};
}

Verb forget() {
  return {"forget", "reason", Role::admin, fits,
          [](Database& home, const Order& order, const ActionRequest& request) {
            return home.forget_relay(order.relay, request);
          }};
}

}  // namespace

std::vector<Route> order_routes(const std::shared_ptr<Desk>& desk) {
  std::vector<Route> routes;
  for (const Verb& verb : {hold("pause", Hold::paused), hold("drain", Hold::draining),
                           hold("resume", Hold::none), seek(), rename(), forget()})
    routes.push_back({"POST", "/api/v1/relays/{name}/" + std::string(verb.name), verb.role,
                      Route::Kind::changes,
                      answering([desk, verb](const Request& request, const Identity& who) {
                        return obey(*desk, verb, request, who);
                      })});
  return routes;
}

}  // namespace dovetail::console

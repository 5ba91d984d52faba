#include "console/api/daemon.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "assembly/consumer_lane.h"
#include "config/units.h"
#include "console/api/call.h"
#include "host/host.h"

namespace dovetail::console {
namespace {

using config::ConsumerConfig;
using config::HandlerConfig;
using config::RelayConfig;

// Counted since the process started.
Json json_of(const RelayMetrics& metrics) {
  const auto quantile = [&metrics](double q) -> Json {
    if (metrics.commit_to_confirm.count() == 0) return nullptr;
    return metrics.commit_to_confirm.quantile(q).count();
  };
  return {{"confirmed_total", metrics.confirmed.load()},
          {"duplicates_suppressed", metrics.duplicates.load()},
          {"failed_total", metrics.failed.load()},
          {"parked_total", metrics.parked.load()},
          {"replayed_total", metrics.replayed.load()},
          {"refused_stale_writes", metrics.fenced.load()},
          {"window_events", metrics.window_events.load()},
          {"commit_to_confirm_p50_us", quantile(0.5)},
          {"commit_to_confirm_p99_us", quantile(0.99)}};
}

Json json_of(const RelayConfig& relay, const std::vector<Member>& members) {
  Json json{{"name", relay.name},
            {"from", relay.from},
            {"to", relay.to},
            {"lanes", relay.lanes},
            {"lease_us", relay.lease.count()},
            {"window_events_max", relay.options.window_events_max},
            {"attempts_max", relay.options.attempts_max},
            {"counts", nullptr}};
  for (const Member& member : members)
    if (member.relay->name == relay.name) json["counts"] = json_of(member.lane->metrics());
  return json;
}

std::string_view to_string(HandlerConfig::Kind kind) {
  switch (kind) {
    case HandlerConfig::Kind::sql:
      return "sql";
    case HandlerConfig::Kind::queue:
      return "queue";
    case HandlerConfig::Kind::http:
      return "http";
    case HandlerConfig::Kind::command:
      break;
  }
  return "command";
}

Json json_of(const ConsumerConfig& consumer, const std::vector<Member>& members) {
  Json json = json_of(consumer.relay, members);
  json["handlers"] = Json::array();
  for (const HandlerConfig& handler : consumer.handlers)
    json["handlers"].push_back({{"name", assembly::inbox_name(consumer, handler)},
                                {"kind", to_string(handler.kind)},
                                {"types", handler.types},
                                {"applies_once", !handler.is_external()}});
  return json;
}

Json daemon_json(const Desk& desk) {
  const std::vector<Member> members = desk.roster.all();
  Json stores = Json::array();
  for (const config::StoreConfig& store : desk.config.stores)
    stores.push_back({{"name", store.name},
                      {"kind", store.type().name},
                      {"is_broker", store.is_broker()},
                      {"path", store.shown}});
  Json relays = Json::array();
  for (const RelayConfig& relay : desk.config.relays) {
    Json json = json_of(relay, members);
    json["topic"] = relay.topic;
    json["mode"] = config::to_string(relay.reading.mode);
    relays.push_back(std::move(json));
  }
  Json consumers = Json::array();
  for (const ConsumerConfig& consumer : desk.config.consumers)
    consumers.push_back(json_of(consumer, members));
  return {{"time", config::iso_time(desk.clock.wall())},
          {"version", DOVETAIL_VERSION},
          {"process", process_label()},
          {"started_at", config::iso_time(desk.started_at)},
          {"stores", stores},
          {"relays", relays},
          {"consumers", consumers}};
}

bool is_configured(const config::Config& config, const std::string& name) {
  return config.find_consumer(name) != nullptr ||
         std::any_of(config.relays.begin(), config.relays.end(),
                     [&](const RelayConfig& relay) { return relay.name == name; });
}

Expected<Json> history_json(const Desk& desk, const Request& request) {
  const auto named = check_query(request, {"relay", "steps"});
  if (!named) return tl::unexpected(named.error());
  const std::string_view steps = request.asked("steps");
  if (!steps.empty() && steps != "fine" && steps != "coarse")
    return refuse(Exit::usage, "steps must be fine or coarse");
  const std::string relay(request.asked("relay"));
  const bool is_coarse = steps == "coarse";
  auto series = desk.history->of(relay, is_coarse);
  if (!series && !is_configured(desk.config, relay))
    return refuse(Exit::negative, "the config has no relay and no consumer \"" + relay + "\"");
  if (!series)
    series =
        History::Series{desk.clock.wall(), is_coarse ? History::kCoarseStep : History::kStep, {}};
  Json json{{"relay", relay},
            {"start", config::iso_time(series->start)},
            {"step_us", series->step.count()}};
  const std::pair<const char*, std::optional<double> Point::*> columns[] = {
      {"pending", &Point::pending},
      {"oldest_age_us", &Point::oldest_age_us},
      {"in_per_second", &Point::in_per_second},
      {"out_per_second", &Point::out_per_second},
      {"p50_us", &Point::p50_us},
      {"p99_us", &Point::p99_us},
      {"retained_wal_bytes", &Point::retained_wal_bytes},
      {"parked", &Point::parked}};
  for (const auto& [name, column] : columns) {
    Json values = Json::array();
    for (const Point& point : series->points)
      values.push_back(point.*column ? Json(*(point.*column)) : Json(nullptr));
    json[name] = std::move(values);
  }
  return json;
}

}  // namespace

std::vector<Route> daemon_routes(const std::shared_ptr<Desk>& desk) {
  using Kind = Route::Kind;
  return {{"GET", "/api/v1/daemon", Role::viewer, Kind::reads,
           answering([desk](const Request& request, const Identity&) -> Expected<Json> {
             if (const auto named = check_query(request, {}); !named)
               return tl::unexpected(named.error());
             return daemon_json(*desk);
           }),
           Route::Where::listener},
          {"GET", "/api/v1/history", Role::viewer, Kind::reads,
           answering([desk](const Request& request, const Identity&) {
             return history_json(*desk, request);
           }),
           Route::Where::listener}};
}

}  // namespace dovetail::console

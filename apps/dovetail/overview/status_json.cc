#include "overview/status_json.h"

#include <nlohmann/json.hpp>

#include "config/units.h"

namespace dovetail::app {
namespace {

using assembly::LaneStatus;
using assembly::StoreStatus;

void add_state(Json& json, Duration lease_left, const std::optional<SaidState>& said) {
  json["state"] = state_of(lease_left, said);
  if (!said) return;
  // The last report of a process that has ended.
  json["state_since"] = config::iso_time(said->since);
  json["last_error"] = said->last_error;
  if (said->next_try && said->is_current) json["next_try"] = config::iso_time(*said->next_try);
  if (!said->is_current) json["last_state"] = said->state;
}

Json json_of(const assembly::RelayStatus& reader, const config::StoreConfig& store,
             const config::Config& config) {
  Json json{{"name", reader.name},
            {"source", to_string(reader.source)},
            {"pending", reader.pending},
            {"oldest_age_us", reader.oldest_age.count()},
            {"delivered_total", reader.delivered_total},
            {"replayed_total", reader.replayed_total},
            {"skipped_total", reader.skipped_total},
            {"events_per_second", reader.events_per_second},
            {"parked", reader.parked},
            {"waiting", reader.waiting},
            {"parked_total", reader.parked_total},
            {"owner", reader.owner},
            {"epoch", reader.epoch},
            {"lease_left_us", reader.lease_left.count()},
            {"updated_at", config::iso_time(reader.updated_at)}};
  const bool is_pending_known = knows_pending(reader);
  if (!is_pending_known) json["pending"] = nullptr;
  if (!is_pending_known || !reader.is_age_known) json["oldest_age_us"] = nullptr;
  add_state(json, reader.lease_left, reader.said);
  if (const std::string_view held = hold_state(reader); !held.empty()) {
    json["state"] = held;
    json["hold"] = {{"since", config::iso_time(reader.hold.since)},
                    {"by", reader.hold.by},
                    {"reason", reader.hold.reason}};
  }
  if (!reader.target.empty()) json["target"] = reader.target;
  if (!reader.error.empty()) json["error"] = {{"code", "rejected"}, {"text", reader.error}};
  if (!reader.table.empty()) json["table"] = reader.table;
  if (reader.reading) {
    json["reads"] = {{"from", reader.reading->streams ? "wal" : "table"},
                     {"since", config::iso_time(reader.reading->since)},
                     {"why", reader.reading->why},
                     {"slot", reader.reading->slot},
                     {"retained_wal_bytes", reader.reading->retained_wal}};
  }
  if (const auto* relay = configured(config, store, reader.name)) {
    json["from"] = relay->from;
    json["to"] = relay->to;
  }
  for (const LaneStatus& lane : reader.lanes) {
    Json one{{"lane", lane.lane},
             {"pending", lane.pending},
             {"owner", lane.owner},
             {"epoch", lane.epoch},
             {"lease_left_us", lane.lease_left.count()}};
    if (!is_pending_known) one["pending"] = nullptr;
    add_state(one, lane.lease_left, lane.said);
    json["lanes"].push_back(std::move(one));
  }
  return json;
}

Json json_of(const config::StoreConfig& store, const StoreStatus& status,
             const config::Config& config) {
  Json readers = Json::array();
  for (const auto& reader : status.relays) readers.push_back(json_of(reader, store, config));
  Json consumers = Json::array();
  for (const auto& consumer : status.consumers) {
    consumers.push_back({{"name", consumer.name},
                         {"applied", consumer.applied},
                         {"duplicates_suppressed", consumer.duplicates},
                         {"superseded", consumer.superseded},
                         {"trying", consumer.trying},
                         {"claims_held", consumer.claims},
                         {"clean", consumer.clean}});
  }
  Json queues = Json::array();
  for (const QueueStatus& queue : status.queues) {
    queues.push_back({{"consumer", queue.consumer},
                      {"events", queue.events},
                      {"ready", queue.ready},
                      {"held", queue.held},
                      {"later", queue.later},
                      {"waiting", queue.waiting},
                      {"parked", queue.parked},
                      {"oldest_age_us", queue.oldest_age.count()}});
  }
  Json json{{"name", store.name},
            {"path", store.shown},
            {"schema", status.schema_version},
            {"outbox_rows", status.outbox_rows},
            {"mailbox_rows", status.mailbox_rows},
            {"inbox_rows", status.inbox_rows},
            {"rows_are_estimated", status.are_rows_estimated},
            {"file_bytes", status.file_bytes},
            {"wal_bytes", status.wal_bytes},
            {"relays", readers},
            {"consumers", consumers},
            {"queues", queues}};
  if (status.delayed) {
    json["delayed"] = {{"events", status.delayed->events},
                       {"failing", status.delayed->failing},
                       {"next", config::iso_time(status.delayed->next)}};
  }
  if (!status.server_version.empty()) {
    json["server"] = status.server_version;
    json["partitions"] = status.partitions;
    json["standby"] = status.standby;
  }
  return json;
}

// Every store has the same lists, even if they are empty.
Json empty_json(const config::StoreConfig& store) {
  return {{"name", store.name},
          {"path", store.shown},
          {"relays", Json::array()},
          {"consumers", Json::array()},
          {"queues", Json::array()}};
}

Json json_of(const StoreView& view, const config::Config& config) {
  if (view.status) return json_of(*view.store, *view.status, config);
  Json json = empty_json(*view.store);
  if (view.store->is_broker()) json["broker"] = to_string(view.store->scheme);
  if (view.failure)
    json["error"] = {{"code", to_string(view.failure->exit)}, {"text", view.failure->text}};
  return json;
}

Json json_of(const Totals& totals) {
  Json json{{"relays", totals.relays},
            {"running", totals.running},
            {"delivering", totals.delivering},
            {"silent", totals.silent},
            {"pending", totals.pending},
            {"oldest_age_us", totals.oldest_age.count()},
            {"oldest_in", totals.oldest_in},
            {"events_per_second", totals.events_per_second},
            {"delivered_total", totals.delivered},
            {"parked", totals.parked},
            {"waiting", totals.waiting}};
  if (!totals.is_pending_known) json["pending"] = nullptr;
  return json;
}

}  // namespace

Json json_of(const Problem& problem) {
  Json where{{"store", problem.where.store}};
  if (!problem.where.relay.empty())
    where[problem.where.is_consumer ? "consumer" : "relay"] = problem.where.relay;
  return {{"kind", to_string(problem.kind)},
          {"severity", to_string(problem.severity)},
          {"title", problem.title},
          {"text", problem.text},
          {"effect", problem.effect},
          {"since", problem.since ? Json(config::iso_time(*problem.since)) : Json(nullptr)},
          {"where", std::move(where)}};
}

Json json_of(const Verdict& verdict) {
  return {{"kind", verdict.kind}, {"title", verdict.title}, {"text", verdict.text}};
}

Json status_json(const Overview& overview, const std::vector<Problem>& problems) {
  Json found = Json::array();
  for (const Problem& problem : problems) found.push_back(json_of(problem));
  Json stores = Json::array();
  for (const StoreView& view : overview.stores) stores.push_back(json_of(view, *overview.config));
  return {{"time", config::iso_time(overview.at)},
          {"verdict", json_of(verdict_of(overview, problems))},
          {"problems", std::move(found)},
          {"totals", json_of(totals_of(overview, problems))},
          {"stores", std::move(stores)}};
}

}  // namespace dovetail::app

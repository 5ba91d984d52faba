#include "console/api/event_life.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "assembly/database.h"
#include "assembly/life.h"
#include "config/units.h"
#include "console/api/events.h"
#include "reports/life_report.h"

namespace dovetail::console {
namespace {

using assembly::database_of;
using config::StoreConfig;

// Of its key, on each side.
constexpr std::size_t kNeighbours = 5;
// No index of an outbox begins with the key, so the search for them looks only so far.
constexpr std::size_t kLook = 1000;

Status add_places(const StoreConfig& store, const EventId& id, Json& places) {
  for (const SourceKind source : {SourceKind::outbox, SourceKind::mailbox}) {
    if (source == SourceKind::mailbox && !store.type().has_mailbox) continue;
    EventFilter filter;
    filter.source = source;
    filter.id = id.to_string();
    filter.limit = kRowsMax;
    const auto rows = database_of(store)->list_events(filter);
    if (!rows) return fail(rows.error());
    for (const EventRow& row : *rows) places.push_back(app::json_of(store, source, row));
  }
  return {};
}

// How many events of its key wait behind it, up to kRowsMax.
Result<std::size_t> behind(const StoreConfig& store, const ParkedRow& head) {
  if (!head.head || head.aggregate_id.empty()) return 0;
  ParkedFilter filter;
  filter.relay = head.relay;
  filter.aggregate_type = head.aggregate_type;
  filter.key = head.aggregate_id;
  filter.limit = kRowsMax + 1;
  const auto rows = database_of(store)->list_parked(filter);
  if (!rows) return fail(rows.error());
  return rows->empty() ? 0 : rows->size() - 1;
}

Status add_parked(const StoreConfig& store, const EventId& id, Json& parked) {
  ParkedFilter filter;
  filter.id = id.to_string();
  filter.with_finished = true;
  const auto rows = database_of(store)->list_parked(filter);
  if (!rows) return fail(rows.error());
  for (const ParkedRow& row : *rows) {
    const auto count = behind(store, row);
    if (!count) return fail(count.error());
    Json json = app::json_of(app::ParkedPlace{&store, row});
    json["behind"] = *count;
    parked.push_back(std::move(json));
  }
  return {};
}

Json json_of(const life::HandlerFacts& handler) {
  Json json{{"store", handler.store}, {"consumer", handler.name},
            {"applied_at", nullptr},  {"attempts", handler.attempts},
            {"held_until", nullptr},  {"queued", handler.is_queued}};
  if (handler.applied_at) json["applied_at"] = config::iso_time(*handler.applied_at);
  if (handler.held_until) json["held_until"] = config::iso_time(*handler.held_until);
  return json;
}

// The nearest events of one side, the nearest first in `rows` or last.
Json nearest(const StoreConfig& store, std::vector<EventRow> rows, bool is_before) {
  if (!is_before) std::reverse(rows.begin(), rows.end());
  Json events = Json::array();
  for (std::size_t at = 0; at < rows.size() && events.size() < kNeighbours;)
    events.push_back(event_json(store, SourceKind::outbox, rows, at));
  if (is_before) std::reverse(events.begin(), events.end());
  return events;
}

// What comes before and behind it, in the order of its key.
Status add_key(const StoreConfig& store, const EventRow& row, Json& document) {
  EventSearch search;
  search.aggregate_type = row.aggregate_type;
  search.key = row.aggregate_id;
  search.look_max = kLook;
  search.limit = kLook;
  search.before = row.position;
  const auto before = database_of(store)->search_events(search);
  if (!before) return fail(before.error());
  search.before = row.position + static_cast<std::int64_t>(kLook);
  auto behind = database_of(store)->search_events(search);
  if (!behind) return fail(behind.error());
  std::erase_if(behind->rows, [&](const EventRow& one) { return one.position <= row.position; });
  document["of_its_key"] = {{"before", nearest(store, before->rows, true)},
                            {"behind", nearest(store, behind->rows, false)}};
  return {};
}

bool has_neighbours(const StoreConfig& store, const life::OutboxFacts& place) {
  const EventRow& row = place.row;
  return place.store == store.name && place.source == SourceKind::outbox &&
         row.state != EventState::delayed && !row.aggregate_id.empty() &&
         !store.tables.contains(row.relay);
}

// Every row that the store has about it.
Status add_rows(const StoreConfig& store, const life::Facts& facts, Json& document) {
  DOVETAIL_TRY(add_places(store, facts.id, document["places"]));
  DOVETAIL_TRY(add_parked(store, facts.id, document["parked"]));
  for (const life::OutboxFacts& place : facts.places)
    if (has_neighbours(store, place)) DOVETAIL_TRY(add_key(store, place.row, document));
  return {};
}

bool is_silent(const std::vector<Silent>& silent, const StoreConfig& store) {
  return std::any_of(silent.begin(), silent.end(),
                     [&](const Silent& one) { return one.store == store.name; });
}

}  // namespace

Expected<Json> event_life(const Desk& desk, const Request& request) {
  if (const auto named = check_query(request, {}); !named) return tl::unexpected(named.error());
  const auto id = id_of(request);
  if (!id) return tl::unexpected(id.error());
  const Result<life::Facts> facts = assembly::gather_life(desk.config, *id);
  if (!facts) return refuse(facts.error());
  std::vector<Silent> silent;
  for (const life::Unasked& one : facts->unasked) silent.push_back({one.store, one.why});
  if (!life::is_found(*facts) && silent.empty())
    return refuse(Exit::negative,
                  "no store of this daemon has the event " + id->to_string() +
                      "; it may have been pruned, or its transaction never committed");
  Json document = app::json_of(*facts, life::life_of(*facts));
  document["places"] = Json::array();
  document["parked"] = Json::array();
  document["inbox"] = Json::array();
  document["audit"] = Json::array();
  document["of_its_key"] = nullptr;
  for (const StoreConfig& store : desk.config.stores) {
    if (store.is_broker() || is_silent(silent, store)) continue;
    if (const Status added = add_rows(store, *facts, document); !added)
      silent.push_back({store.name, added.error().text});
  }
  for (const life::HandlerFacts& handler : facts->handlers)
    document["inbox"].push_back(json_of(handler));
  for (const life::Decision& one : facts->decisions)
    document["audit"].push_back(app::json_of(*desk.config.find_store(one.store), one.row));
  document["problems"] = json_of(silent);
  return document;
}

}  // namespace dovetail::console

#include "console/api/event_life.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "assembly/database.h"
#include "config/units.h"

namespace dovetail::console {
namespace {

using assembly::database_of;
using config::StoreConfig;

struct Life {
  Json places = Json::array();
  Json parked = Json::array();
  Json inbox = Json::array();
  Json audit = Json::array();
};

Status add_places(const StoreConfig& store, const EventId& id, Life& life) {
  for (const SourceKind source : {SourceKind::outbox, SourceKind::mailbox}) {
    if (source == SourceKind::mailbox && !store.type().has_mailbox) continue;
    EventFilter filter;
    filter.source = source;
    filter.id = id.to_string();
    filter.limit = kRowsMax;
    const auto rows = database_of(store)->list_events(filter);
    if (!rows) return fail(rows.error());
    for (const EventRow& row : *rows) life.places.push_back(app::json_of(store, source, row));
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

Status add_parked(const StoreConfig& store, const EventId& id, Life& life) {
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
    life.parked.push_back(std::move(json));
  }
  return {};
}

Status add_inbox(const StoreConfig& store, const EventId& id, Life& life) {
  const auto rows = database_of(store)->inbox_of(id);
  if (!rows) return fail(rows.error());
  for (const InboxRow& row : *rows) {
    Json json{{"store", store.name},      {"consumer", row.consumer}, {"applied_at", nullptr},
              {"attempts", row.attempts}, {"held_until", nullptr},    {"queued", row.is_queued}};
    if (row.applied_at) json["applied_at"] = config::iso_time(*row.applied_at);
    if (row.held_until) json["held_until"] = config::iso_time(*row.held_until);
    life.inbox.push_back(std::move(json));
  }
  return {};
}

Status add_all(const StoreConfig& store, const EventId& id, Life& life) {
  DOVETAIL_TRY(add_places(store, id, life));
  DOVETAIL_TRY(add_parked(store, id, life));
  DOVETAIL_TRY(add_inbox(store, id, life));
  const auto audit = database_of(store)->list_audit({.subject = id.to_string(), .limit = kRowsMax});
  if (!audit) return fail(audit.error());
  for (const AuditRow& row : *audit) life.audit.push_back(app::json_of(store, row));
  return {};
}

}  // namespace

Expected<Json> event_life(const Desk& desk, const Request& request) {
  if (const auto named = check_query(request, {}); !named) return tl::unexpected(named.error());
  const auto id = id_of(request);
  if (!id) return tl::unexpected(id.error());
  Life life;
  std::vector<Silent> silent;
  for (const StoreConfig& store : desk.config.stores) {
    if (store.is_broker()) continue;
    if (const Status added = add_all(store, *id, life); !added)
      silent.push_back({store.name, added.error().text});
  }
  if (life.places.empty() && life.parked.empty() && life.inbox.empty() && silent.empty())
    return refuse(Exit::negative,
                  "no store of this daemon has the event " + id->to_string() +
                      "; it may have been pruned, or its transaction never committed");
  return Json{{"id", id->to_string()}, {"places", life.places}, {"parked", life.parked},
              {"inbox", life.inbox},   {"audit", life.audit},   {"problems", json_of(silent)}};
}

}  // namespace dovetail::console

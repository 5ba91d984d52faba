#include "console/api/payload.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "assembly/database.h"

namespace dovetail::console {
namespace {

using assembly::database_of;
using config::StoreConfig;

struct Held {
  const StoreConfig* store = nullptr;
  std::string payload{};
};

// The first store that has it. One that cannot be asked, or refuses this login, may have it.
Expected<Held> find_payload(const config::Config& config, const EventId& id) {
  std::optional<app::Failure> unread;
  for (const StoreConfig& store : config.stores) {
    if (store.is_broker()) continue;
    auto payload = database_of(store)->payload_of(id);
    if (!payload) {
      unread = app::refuse_in(store, payload.error()).value();
    } else if (*payload) {
      return Held{&store, std::move(**payload)};
    }
  }
  if (unread) return tl::unexpected(*unread);
  return refuse(Exit::negative, "no store of this daemon has the payload of " + id.to_string() +
                                    "; it may have been pruned");
}

// The row of the outbox that was committed.
struct Committed {
  const StoreConfig* store = nullptr;
  EventRow row{};
};

Expected<Committed> find_committed(const config::Config& config, const EventId& id) {
  for (const StoreConfig& store : config.stores) {
    if (store.is_broker()) continue;
    EventFilter filter;
    filter.id = id.to_string();
    const auto rows = database_of(store)->list_events(filter);
    if (!rows) return app::refuse_in(store, rows.error());
    for (const EventRow& row : *rows)
      if (!store.tables.contains(row.relay) && row.state != EventState::delayed)
        return Committed{&store, row};
  }
  return refuse(Exit::rejected,
                "no outbox of this daemon has the event " + id.to_string() +
                    "; only an event of an outbox can go out again with another payload");
}

}  // namespace

Expected<Edit> edit_of(const Request& request, const Json& body) {
  Edit edit;
  const auto replaced = id_of(request);
  if (!replaced) return tl::unexpected(replaced.error());
  edit.replaced = *replaced;
  const auto id_text = text_in(body, "id");
  if (!id_text) return tl::unexpected(id_text.error());
  const auto id = EventId::parse(*id_text);
  if (!id || *id == edit.replaced)
    return refuse(Exit::usage, "id must be a new UUID, which the new event gets");
  edit.id = *id;
  auto payload = text_in(body, "payload");
  if (!payload) return tl::unexpected(payload.error());
  edit.payload = std::move(*payload);
  auto reason = reason_in(body);
  if (!reason) return tl::unexpected(reason.error());
  edit.reason = std::move(*reason);
  return edit;
}

Expected<std::vector<Header>> edited_headers(const Json& body, std::string_view stored,
                                             const EventId& replaced) {
  std::vector<Header> headers;
  if (body.contains("headers")) {
    if (!body["headers"].is_object())
      return refuse(Exit::usage, "headers must be an object of texts");
    for (const auto& [name, value] : body["headers"].items()) {
      if (!value.is_string()) return refuse(Exit::usage, "headers must be an object of texts");
      headers.push_back({name, value.get<std::string>()});
    }
  } else if (!stored.empty()) {
    auto decoded = decode_headers(stored);
    if (!decoded) return refuse(decoded.error());
    headers = std::move(*decoded);
  }
  std::erase_if(headers, [](const Header& one) { return one.name == kReplaces; });
  headers.push_back({std::string(kReplaces), replaced.to_string()});
  return headers;
}

Expected<Json> reveal_payload(const Desk& desk, const Request& request, const Identity& who) {
  const auto decision = decision_of(request);
  if (!decision) return tl::unexpected(decision.error());
  const EventId& id = decision->id;
  const auto held = find_payload(desk.config, id);
  if (!held) return tl::unexpected(held.error());
  const std::string spoken = spoken_reason(request, who, decision->reason);
  if (const Status recorded = database_of(*held->store)->note_reveal(id, spoken); !recorded)
    return app::refuse_in(*held->store, recorded.error());
  Json json{{"id", id.to_string()},
            {"store", held->store->name},
            {"payload_bytes", held->payload.size()}};
  app::add_payload(json, held->payload);
  return json;
}

Expected<Json> publish_edited(const Desk& desk, const Request& request, const Identity& who) {
  const auto body = body_of(request, {"id", "payload", "headers", "reason"});
  if (!body) return tl::unexpected(body.error());
  const auto edit = edit_of(request, *body);
  if (!edit) return tl::unexpected(edit.error());
  const auto committed = find_committed(desk.config, edit->replaced);
  if (!committed) return tl::unexpected(committed.error());
  const StoreConfig& store = *committed->store;
  const EventRow& row = committed->row;
  const auto headers = edited_headers(*body, row.headers, edit->replaced);
  if (!headers) return tl::unexpected(headers.error());
  if (row.content_type.find("json") != std::string::npos && !nlohmann::json::accept(edit->payload))
    return refuse(Exit::rejected, "the payload is not valid JSON, which its content type promises");
  NewEvent event;
  event.aggregate_type = row.aggregate_type;
  event.aggregate_id = row.aggregate_id;
  event.type = row.type;
  event.payload = edit->payload;
  event.content_type = row.content_type;
  event.headers = *headers;
  event.topic = row.topic;
  event.aggregate_version = row.aggregate_version;
  event.id = edit->id;
  EventLimits limits;
  if (store.payload_bytes_max != 0) limits.payload_bytes_max = store.payload_bytes_max;
  const auto discarded = database_of(store)->publish_edited(
      edit->replaced, event, limits, spoken_reason(request, who, edit->reason));
  if (!discarded) return app::refuse_in(store, discarded.error());
  return Json{{"id", edit->id.to_string()}, {"store", store.name}, {"discarded", *discarded}};
}

}  // namespace dovetail::console

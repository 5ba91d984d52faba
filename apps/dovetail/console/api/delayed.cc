#include "console/api/delayed.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "console/api/events.h"

namespace dovetail::console {
namespace {

using assembly::database_of;
using config::StoreConfig;

bool is_wanted(const EventRow& row, const EventSearch& search) {
  const std::string key = row.aggregate_type + "/" + row.aggregate_id;
  const bool has_word = search.word.empty() || row.type == search.word ||
                        row.topic == search.word || row.aggregate_id == search.word ||
                        key == search.word;
  return has_word &&
         (search.aggregate_type.empty() || row.aggregate_type == search.aggregate_type) &&
         (!search.from || row.created_at >= *search.from) &&
         (!search.until || row.created_at < *search.until);
}

struct Listing {
  Json events = Json::array();
  Cursor next{};
};

// Adds what the page still takes of one store.
Status add_of(const StoreConfig& store, const EventSearch& search, std::int64_t after, Clock& clock,
              TimePoint until, Listing& listing) {
  EventFilter filter;
  filter.state = EventState::delayed;
  filter.type = search.type;
  filter.key = search.key;
  filter.topic = search.topic;
  filter.after = after;
  filter.limit = kRowsMax;
  while (true) {
    const auto rows = database_of(store)->list_events(filter);
    if (!rows) return fail(rows.error());
    for (std::size_t at = 0; at < rows->size();) {
      if (listing.events.size() == search.limit) {
        listing.next.set(store.name, filter.after);
        return {};
      }
      filter.after = (*rows)[at].position;
      if (is_wanted((*rows)[at], search))
        listing.events.push_back(event_json(store, SourceKind::outbox, *rows, at));
      else
        ++at;
    }
    if (rows->size() < kRowsMax) return {};
    if (clock.now() < until) continue;
    listing.next.set(store.name, filter.after);
    return {};
  }
}

}  // namespace

Expected<Json> list_delayed(const std::vector<const StoreConfig*>& stores,
                            const EventSearch& search, const Cursor& cursor, Clock& clock) {
  if (search.source == SourceKind::mailbox)
    return refuse(Exit::usage, "only an outbox has delayed events; leave out box");
  const TimePoint until = clock.now() + kSearchTime;
  Listing listing;
  std::vector<Silent> silent;
  for (const StoreConfig* store : stores) {
    const auto after = cursor.of(store->name);
    if (!after || !store->type().has_delayed_events) continue;
    if (!listing.next.is_end()) {
      listing.next.set(store->name, *after);
      continue;
    }
    const Status added = add_of(*store, search, *after, clock, until, listing);
    if (!added) silent.push_back({store->name, added.error().text});
  }
  return Json{{"events", listing.events},
              {"next", listing.next.is_end() ? Json(nullptr) : Json(listing.next.text())},
              {"looked_back_to", nullptr},
              {"problems", json_of(silent)}};
}

Expected<Json> cancel_delayed(const Desk& desk, const Request& request, const Identity& who) {
  const auto decision = decision_of(request);
  if (!decision) return tl::unexpected(decision.error());
  const EventId& id = decision->id;
  std::optional<app::Failure> away;
  for (const StoreConfig& store : desk.config.stores) {
    if (!store.type().has_delayed_events) continue;
    const auto rows = database_of(store)->list_events(
        {.state = EventState::delayed, .id = id.to_string(), .limit = 1});
    if (!rows) away = app::refuse_in(store, rows.error()).value();
    if (!rows || rows->empty()) continue;
    const Status done =
        database_of(store)->cancel(id, spoken_reason(request, who, decision->reason));
    if (!done) return app::refuse_in(store, done.error());
    return Json{{"id", id.to_string()}, {"store", store.name}, {"cancelled", true}};
  }
  if (away) return tl::unexpected(*away);
  return refuse(Exit::rejected,
                "no event " + id.to_string() + " waits for its time; it may have gone out already");
}

}  // namespace dovetail::console

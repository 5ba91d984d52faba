#include "console/api/events.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "assembly/database.h"
#include "config/units.h"
#include "console/api/call.h"
#include "console/api/delayed.h"
#include "console/api/event_life.h"
#include "console/api/payload.h"

namespace dovetail::console {
namespace {

using assembly::database_of;
using config::StoreConfig;

// A search goes on until it has a page, or for so long: in all stores together.
constexpr std::size_t kLookMax = 5000;

struct StorePage {
  const StoreConfig* store = nullptr;
  std::int64_t begin = 0;
  FoundEvents found{};
};

Expected<EventSearch> search_of(const Request& request, std::size_t limit) {
  EventSearch search;
  search.word = request.asked("q");
  search.key = request.asked("key");
  search.aggregate_type = request.asked("aggregate_type");
  search.type = request.asked("type");
  search.topic = request.asked("topic");
  search.relay = request.asked("relay");
  if (const std::string_view box = request.asked("box"); box == "mailbox")
    search.source = SourceKind::mailbox;
  else if (!box.empty() && box != "outbox")
    return refuse(Exit::usage, "box must be outbox or mailbox");
  if (const std::string_view text = request.asked("state"); !text.empty()) {
    const auto state = parse_event_state(text);
    if (!state) return refuse(Exit::usage, state.error().text);
    search.state = *state;
  }
  const auto from = time_of(request, "from");
  if (!from) return tl::unexpected(from.error());
  const auto until = time_of(request, "to");
  if (!until) return tl::unexpected(until.error());
  search.from = *from;
  search.until = *until;
  search.limit = limit;
  search.look_max = kLookMax;
  return search;
}

Result<FoundEvents> search_in(const StoreConfig& store, EventSearch search, Clock& clock,
                              TimePoint until) {
  const std::size_t limit = search.limit;
  FoundEvents all;
  while (true) {
    search.limit = limit - all.rows.size();
    auto found = database_of(store)->search_events(search);
    if (!found) return found;
    std::move(found->rows.begin(), found->rows.end(), std::back_inserter(all.rows));
    all.next = found->next;
    all.looked_back_to = found->looked_back_to;
    if (all.next == 0 || all.rows.size() >= limit || clock.now() >= until) return all;
    search.before = all.next;
  }
}

struct Listed {
  WallTime at;
  std::size_t page;
  std::int64_t position;
  Json json;
};

std::vector<Listed> merged(const std::vector<StorePage>& pages, SourceKind source,
                           std::size_t limit) {
  std::vector<Listed> all;
  for (std::size_t page = 0; page < pages.size(); ++page) {
    const std::vector<EventRow>& rows = pages[page].found.rows;
    for (std::size_t at = 0; at < rows.size();) {
      const EventRow& row = rows[at];
      all.push_back(
          {row.created_at, page, row.position, event_json(*pages[page].store, source, rows, at)});
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Listed& one, const Listed& other) { return one.at > other.at; });
  if (all.size() > limit) all.erase(all.begin() + static_cast<std::ptrdiff_t>(limit), all.end());
  return all;
}

// What was found and does not fit comes with the next page.
Cursor next_of(const std::vector<StorePage>& pages, const std::vector<Listed>& listed) {
  Cursor next;
  for (std::size_t page = 0; page < pages.size(); ++page) {
    const StorePage& one = pages[page];
    std::int64_t last = 0;
    std::int64_t found = 0;
    for (const Listed& event : listed)
      if (event.page == page) last = event.position;
    if (!one.found.rows.empty()) found = one.found.rows.back().position;
    if (found != last)
      next.set(one.store->name, last != 0 ? last : one.begin);
    else if (one.found.next != 0)
      next.set(one.store->name, one.found.next);
  }
  return next;
}

Expected<Json> search_events(const Desk& desk, const Request& request) {
  const auto page = page_of(
      desk.config, request,
      {"q", "key", "aggregate_type", "type", "topic", "relay", "box", "state", "from", "to"});
  if (!page) return tl::unexpected(page.error());
  auto search = search_of(request, page->limit);
  if (!search) return tl::unexpected(search.error());
  if (search->state == EventState::delayed)
    return list_delayed(page->stores, *search, page->after, desk.clock);
  std::vector<StorePage> pages;
  std::vector<Silent> silent;
  std::optional<WallTime> back_to;
  const TimePoint end = desk.clock.now() + kSearchTime;
  auto left = static_cast<std::int64_t>(page->stores.size());
  for (const StoreConfig* store : page->stores) {
    const TimePoint now = desk.clock.now();
    const TimePoint until = now + std::max(Duration{0}, end - now) / left--;
    const auto begin = page->after.of(store->name);
    if (!begin || (search->source == SourceKind::mailbox && !store->type().has_mailbox)) continue;
    search->before = *begin;
    auto found = search_in(*store, *search, desk.clock, until);
    if (!found) {
      silent.push_back({store->name, found.error().text});
      continue;
    }
    if (found->next != 0)
      back_to = std::max(back_to.value_or(found->looked_back_to), found->looked_back_to);
    pages.push_back({store, *begin, std::move(*found)});
  }
  Json events = Json::array();
  std::vector<Listed> listed = merged(pages, search->source, page->limit);
  for (Listed& one : listed) events.push_back(std::move(one.json));
  const Cursor next = next_of(pages, listed);
  return Json{{"events", events},
              {"next", next.is_end() ? Json(nullptr) : Json(next.text())},
              {"looked_back_to", back_to ? Json(config::iso_time(*back_to)) : Json(nullptr)},
              {"problems", json_of(silent)}};
}

}  // namespace

Json event_json(const StoreConfig& store, SourceKind source, const std::vector<EventRow>& rows,
                std::size_t& at) {
  const EventRow& row = rows[at];
  Json json = app::json_of(store, source, row);
  json.erase("headers");
  json.erase("relay");
  json.erase("state");
  json["states"] = Json::array();
  const std::int64_t position = row.position;
  for (; at < rows.size() && rows[at].position == position; ++at)
    json["states"].push_back({{"relay", rows[at].relay}, {"state", app::state_of(rows[at])}});
  return json;
}

std::vector<Route> event_routes(const std::shared_ptr<Desk>& desk) {
  using Kind = Route::Kind;
  return {{"GET", "/api/v1/events", Role::viewer, Kind::reads,
           answering([desk](const Request& request, const Identity&) {
             return search_events(*desk, request);
           })},
          {"GET", "/api/v1/events/{id}", Role::viewer, Kind::reads,
           answering([desk](const Request& request, const Identity&) {
             return event_life(*desk, request);
           })},
          {"POST", "/api/v1/events/{id}/reveal", Role::operator_, Kind::changes,
           answering([desk](const Request& request, const Identity& who) {
             return reveal_payload(*desk, request, who);
           })},
          {"POST", "/api/v1/events/{id}/edit", Role::operator_, Kind::changes,
           answering([desk](const Request& request, const Identity& who) {
             return publish_edited(*desk, request, who);
           })},
          {"POST", "/api/v1/events/{id}/cancel", Role::operator_, Kind::changes,
           answering([desk](const Request& request, const Identity& who) {
             return cancel_delayed(*desk, request, who);
           })}};
}

}  // namespace dovetail::console

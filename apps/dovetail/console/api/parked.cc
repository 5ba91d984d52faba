#include "console/api/parked.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "assembly/database.h"
#include "config/units.h"
#include "console/api/call.h"
#include "console/api/cursor.h"
#include "console/api/parked_groups.h"

namespace dovetail::console {
namespace {

using assembly::database_of;

// The row that the page before ended with; rows are read store by store.
struct After {
  const config::StoreConfig* store = nullptr;  // null: the first page
  std::int64_t number = 0;

  bool is_before(const Head& head) const {
    if (store == nullptr) return true;
    return head.place.store == store ? head.place.row.number > number : head.place.store > store;
  }
};

Expected<After> after_of(const config::Config& config, std::string_view text) {
  if (text.empty()) return After{};
  const auto cursor = Cursor::parse(text);
  if (!cursor) return tl::unexpected(cursor.error());
  for (const config::StoreConfig& store : config.stores)
    if (const auto number = cursor->of(store.name)) return After{&store, *number};
  return refuse(Exit::usage, "after must be the \"next\" of the page before this one");
}

// ---- looking

struct Group {
  const Head* first = nullptr;
  std::string reason{};  // of the newest
  std::size_t parked = 0;
  std::size_t waiting = 0;
  std::set<std::string> types{};
  WallTime first_at{};
  WallTime last_at{};
  std::array<int, 24> per_hour{};  // the last 24 hours, the oldest first
};

void add(Group& group, const Head& head, WallTime now) {
  const ParkedRow& row = head.place.row;
  if (group.first == nullptr) {
    group.first = &head;
    group.first_at = row.parked_at;
  }
  ++group.parked;
  group.waiting += head.behind;
  group.types.insert(row.type);
  group.first_at = std::min(group.first_at, row.parked_at);
  if (row.parked_at >= group.last_at) group.reason = row.reason;
  group.last_at = std::max(group.last_at, row.parked_at);
  const auto hours = (now - row.parked_at) / std::chrono::hours(1);
  if (hours >= 0 && hours < 24) ++group.per_hour[static_cast<std::size_t>(23 - hours)];
}

Json json_of(const std::string& id, const Group& group) {
  Json types = Json::array();
  for (const std::string& type : group.types)
    if (types.size() < 5) types.push_back(type);
  return {{"id", id},
          {"store", group.first->place.store->name},
          {"relay", group.first->place.row.relay},
          {"reason", group.reason},
          {"types", types},
          {"parked", group.parked},
          {"waiting", group.waiting},
          {"first_at", config::iso_time(group.first_at)},
          {"last_at", config::iso_time(group.last_at)},
          {"per_hour", group.per_hour}};
}

Expected<Json> list_groups(const Desk& desk, const Request& request) {
  const auto named = check_query(request, {"store", "relay", "limit"});
  if (!named) return tl::unexpected(named.error());
  const auto limit = limit_of(request);
  if (!limit) return tl::unexpected(limit.error());
  const auto heads = read_heads(desk, request.asked("store"), std::string(request.asked("relay")));
  if (!heads) return tl::unexpected(heads.error());
  std::map<std::string, Group> groups;
  for (const Head& head : heads->all) add(groups[head.group], head, desk.clock.wall());
  std::vector<std::pair<std::string, const Group*>> order;
  for (const auto& [id, group] : groups) order.emplace_back(id, &group);
  std::stable_sort(order.begin(), order.end(), [](const auto& one, const auto& other) {
    return one.second->parked > other.second->parked;
  });
  Json list = Json::array();
  for (const auto& [id, group] : order)
    if (list.size() < *limit) list.push_back(json_of(id, *group));
  return Json{{"groups", list},
              {"complete", heads->is_complete && order.size() <= *limit},
              {"problems", json_of(heads->silent)}};
}

bool has_in_key(const ParkedRow& row, std::string_view part) {
  return (row.aggregate_type + "/" + row.aggregate_id).find(part) != std::string::npos;
}

Expected<Json> list_group(const Desk& desk, const Request& request) {
  const auto named = check_query(request, {"key", "after", "limit"});
  if (!named) return tl::unexpected(named.error());
  const auto limit = limit_of(request);
  if (!limit) return tl::unexpected(limit.error());
  const auto after = after_of(desk.config, request.asked("after"));
  if (!after) return tl::unexpected(after.error());
  const auto heads = read_heads(desk, {}, {});
  if (!heads) return tl::unexpected(heads.error());
  const std::string& id = request.places.find("group")->second;
  const std::string_view key = request.asked("key");
  Json list = Json::array();
  Json next = nullptr;
  std::size_t matching = 0;
  for (const Head& head : heads->all) {
    if (head.group != id || !has_in_key(head.place.row, key)) continue;
    ++matching;
    if (!after->is_before(head) || list.size() == *limit) continue;
    Json json = app::json_of(head.place);
    json["behind"] = head.behind;
    list.push_back(std::move(json));
    next = head.place.store->name + ":" + std::to_string(head.place.row.number);
  }
  if (list.size() < *limit) next = nullptr;
  return Json{{"parked", list},
              {"matching", matching},
              {"next", next},
              {"problems", json_of(heads->silent)}};
}

// ---- deciding

// What a decision is about: ids, a key or a group; `after` continues where the last call ended.
struct Choice {
  std::set<std::string> ids{};
  std::string group{};
  std::string key_part{};  // of a group: only what has this in its key
  std::string store{};
  std::string relay{};
  std::string aggregate_type{};
  std::string key{};
  After after{};
  std::size_t limit = kRowsMax;
  bool dry_run = false;
  std::string reason{};
};

Expected<bool> read_ids(const Json& body, Choice& choice) {
  if (!body.contains("ids")) return true;
  if (!body["ids"].is_array() || body["ids"].empty() || body["ids"].size() > kRowsMax)
    return refuse(Exit::usage, "ids must be a list of 1 to " + std::to_string(kRowsMax) + " ids");
  for (const Json& one : body["ids"]) {
    const auto id = one.is_string() ? EventId::parse(one.get<std::string>()) : EventId::parse("");
    if (!id) return refuse(Exit::usage, id.error().text);
    choice.ids.insert(id->to_string());
  }
  return true;
}

Expected<bool> read_texts(const Json& body, Choice& choice) {
  const std::pair<const char*, std::string*> texts[] = {{"group", &choice.group},
                                                        {"key_part", &choice.key_part},
                                                        {"store", &choice.store},
                                                        {"relay", &choice.relay},
                                                        {"aggregate_type", &choice.aggregate_type},
                                                        {"key", &choice.key}};
  for (const auto& [name, into] : texts) {
    auto text = text_in(body, name);
    if (!text) return tl::unexpected(text.error());
    *into = std::move(*text);
  }
  return true;
}

Expected<Choice> choice_of(const Desk& desk, const Request& request, bool needs_reason) {
  const auto body =
      body_of(request, {"ids", "group", "key_part", "store", "relay", "aggregate_type", "key",
                        "after", "limit", "dry_run", "reason"});
  if (!body) return tl::unexpected(body.error());
  Choice choice;
  if (const auto ids = read_ids(*body, choice); !ids) return tl::unexpected(ids.error());
  if (const auto texts = read_texts(*body, choice); !texts) return tl::unexpected(texts.error());
  const int ways =
      (choice.ids.empty() ? 0 : 1) + (choice.group.empty() ? 0 : 1) + (choice.key.empty() ? 0 : 1);
  if (ways != 1) return refuse(Exit::usage, "choose events by one of: ids, group, key");
  if (!choice.key_part.empty() && choice.group.empty())
    return refuse(Exit::usage, "key_part needs a group");
  const auto after = text_in(*body, "after");
  if (!after) return tl::unexpected(after.error());
  const auto place = after_of(desk.config, *after);
  if (!place) return tl::unexpected(place.error());
  choice.after = *place;
  if (body->contains("limit")) {
    const Json& limit = (*body)["limit"];
    if (!limit.is_number_unsigned() || limit < 1 || limit > kRowsMax)
      return refuse(Exit::usage, "limit must be a number from 1 to " + std::to_string(kRowsMax));
    choice.limit = limit.get<std::size_t>();
  }
  const auto dry_run = flag_in(*body, "dry_run");
  if (!dry_run) return tl::unexpected(dry_run.error());
  choice.dry_run = *dry_run;
  auto reason = needs_reason && !choice.dry_run ? reason_in(*body) : text_in(*body, "reason");
  if (!reason) return tl::unexpected(reason.error());
  choice.reason = std::move(*reason);
  return choice;
}

bool is_chosen(const Choice& choice, const Head& head) {
  const ParkedRow& row = head.place.row;
  if (!choice.group.empty()) return head.group == choice.group && has_in_key(row, choice.key_part);
  if (!choice.ids.empty()) return choice.ids.contains(row.id.to_string());
  return row.aggregate_id == choice.key &&
         (choice.aggregate_type.empty() || row.aggregate_type == choice.aggregate_type);
}

Json counts_of(const std::vector<const Head*>& chosen) {
  std::set<std::string> keys;
  std::set<std::string> relays;
  std::size_t waiting = 0;
  for (const Head* head : chosen) {
    const ParkedRow& row = head->place.row;
    keys.insert(head->place.store->name + "\n" + row.relay + "\n" + row.aggregate_type + "\n" +
                (row.aggregate_id.empty() ? row.id.to_string() : row.aggregate_id));
    relays.insert(row.relay);
    waiting += head->behind;
  }
  return {
      {"parked", chosen.size()}, {"waiting", waiting}, {"keys", keys.size()}, {"relays", relays}};
}

// One after the other, in the order of the rows. What another operator decided meanwhile is named
// and left out.
Json decide(const Choice& choice, const std::vector<const Head*>& chosen, bool is_replay,
            const std::string& reason) {
  Json ids = Json::array();
  Json problems = Json::array();
  Json next = nullptr;
  std::size_t taken = 0;
  for (const Head* head : chosen) {
    const app::ParkedPlace& place = head->place;
    if (taken == choice.limit) break;
    ++taken;
    next = place.store->name + ":" + std::to_string(place.row.number);
    Status done{};
    if (is_replay) {
      const auto replayed =
          database_of(*place.store)->replay(place.row.relay, place.row.id, reason);
      if (!replayed) done = fail(replayed.error());
    } else {
      done = database_of(*place.store)->discard(place.row.relay, place.row.id, reason);
    }
    if (done)
      ids.push_back(place.row.id.to_string());
    else
      problems.push_back({{"id", place.row.id.to_string()}, {"text", done.error().text}});
    // A database that is away is not asked for each of them.
    if (!done && done.error().code != Errc::rejected) break;
  }
  return {{"done", ids.size()},
          {"ids", ids},
          {"left", chosen.size() - taken},
          {"next", taken < chosen.size() ? next : Json(nullptr)},
          {"problems", problems}};
}

Expected<Json> decide(const Desk& desk, const Request& request, const Identity& who,
                      bool is_replay) {
  const auto choice = choice_of(desk, request, !is_replay);
  if (!choice) return tl::unexpected(choice.error());
  const auto heads = read_heads(desk, choice->store, choice->relay);
  if (!heads) return tl::unexpected(heads.error());
  std::vector<const Head*> chosen;
  for (const Head& head : heads->all)
    if (is_chosen(*choice, head) && choice->after.is_before(head)) chosen.push_back(&head);
  if (choice->dry_run) {
    Json counts = counts_of(chosen);
    counts["complete"] = heads->is_complete;
    counts["problems"] = json_of(heads->silent);
    return counts;
  }
  if (chosen.empty() && choice->after.store == nullptr && heads->silent.empty())
    return refuse(Exit::rejected,
                  "none of these is parked and first of its key; look again at what is parked");
  return decide(*choice, chosen, is_replay, spoken_reason(request, who, choice->reason));
}

}  // namespace

std::vector<Route> parked_routes(const std::shared_ptr<Desk>& desk) {
  using Kind = Route::Kind;
  return {{"GET", "/api/v1/parked", Role::viewer, Kind::reads,
           answering([desk](const Request& request, const Identity&) {
             return list_groups(*desk, request);
           })},
          {"GET", "/api/v1/parked/{group}", Role::viewer, Kind::reads,
           answering([desk](const Request& request, const Identity&) {
             return list_group(*desk, request);
           })},
          {"POST", "/api/v1/parked/replay", Role::operator_, Kind::changes,
           answering([desk](const Request& request, const Identity& who) {
             return decide(*desk, request, who, true);
           })},
          {"POST", "/api/v1/parked/discard", Role::operator_, Kind::changes,
           answering([desk](const Request& request, const Identity& who) {
             return decide(*desk, request, who, false);
           })}};
}

}  // namespace dovetail::console

#include "console/api/audit.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "assembly/database.h"
#include "config/units.h"
#include "console/api/call.h"

namespace dovetail::console {
namespace {

using config::StoreConfig;

struct Entry {
  const StoreConfig* store = nullptr;
  AuditRow row{};
};

// Whom this process refused, as far as no database has it. Only on the first page.
Json refused(const Desk& desk, const Request& request) {
  Json list = Json::array();
  const std::string_view who = request.asked("who");
  const bool is_wanted = request.asked("after").empty() && request.asked("store").empty() &&
                         request.asked("subject").empty() && request.asked("what").empty();
  if (!is_wanted) return list;
  for (const Refusals::One& one : desk.refusals->all())
    if (who.empty() || who == one.who)
      list.push_back({{"at", config::iso_time(one.at)},
                      {"who", one.who},
                      {"what", one.what},
                      {"peer", one.peer}});
  return list;
}

Expected<Json> list_audit(const Desk& desk, const Request& request) {
  const auto page = page_of(desk.config, request, {"subject", "what", "who"});
  if (!page) return tl::unexpected(page.error());
  std::vector<Entry> all;
  std::vector<Silent> silent;
  Cursor next;
  for (const StoreConfig* store : page->stores) {
    const auto begin = page->after.of(store->name);
    if (!begin) continue;
    auto rows =
        assembly::database_of(*store)->list_audit({.subject = std::string(request.asked("subject")),
                                                   .what = std::string(request.asked("what")),
                                                   .who = std::string(request.asked("who")),
                                                   .before = *begin,
                                                   .limit = page->limit});
    if (!rows) {
      silent.push_back({store->name, rows.error().text});
      continue;
    }
    if (rows->size() == page->limit) next.set(store->name, rows->back().number);
    for (AuditRow& row : *rows) all.push_back({store, std::move(row)});
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Entry& one, const Entry& other) { return one.row.at > other.row.at; });
  // The next page begins with what did not fit on this one.
  for (std::size_t i = all.size(); i-- > page->limit;)
    next.set(all[i].store->name, all[i].row.number + 1);
  if (all.size() > page->limit) all.resize(page->limit);
  Json list = Json::array();
  for (const Entry& one : all) list.push_back(app::json_of(*one.store, one.row));
  return Json{{"audit", list},
              {"refused", refused(desk, request)},
              {"next", next.is_end() ? Json(nullptr) : Json(next.text())},
              {"problems", json_of(silent)}};
}

}  // namespace

std::vector<Route> audit_routes(const std::shared_ptr<Desk>& desk) {
  return {{"GET", "/api/v1/audit", Role::viewer, Route::Kind::reads,
           answering([desk](const Request& request, const Identity&) {
             return list_audit(*desk, request);
           })}};
}

}  // namespace dovetail::console

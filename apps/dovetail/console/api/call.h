// What all calls of the API share: answers out of results, and what a request asks for.
#pragma once

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "commands/command.h"
#include "config/config.h"
#include "console/api/cursor.h"
#include "console/route.h"
#include "documents/events.h"

namespace dovetail::console {

using app::Exit;
using app::Expected;
using app::Json;
using app::refuse;

inline constexpr std::size_t kRowsMax = 200;  // of a page

using Call = std::function<Expected<Json>(const Request&, const Identity&)>;
// A handler that answers with the document, or with the error: usage 400, negative 404, rejected
// 422, unavailable and config 503, corrupt 500.
Route::Handle answering(Call call);

// usage: the query has another name.
Expected<bool> check_query(const Request& request, std::initializer_list<std::string_view> names);
Expected<bool> check_query(const Request& request, std::span<const std::string_view> names);
// usage: not a number from 1 to kRowsMax. Default: 50.
Expected<std::size_t> limit_of(const Request& request);
// A page of rows from several stores. usage: the query has another name than `names` and those of a
// page, which are store, after and limit; or a value is wrong.
struct Page {
  std::size_t limit = 0;
  Cursor after{};
  std::vector<const config::StoreConfig*> stores{};
};
Expected<Page> page_of(const config::Config& config, const Request& request,
                       std::initializer_list<std::string_view> names);
// Empty: not asked for. usage: not a time.
Expected<std::optional<WallTime>> time_of(const Request& request, std::string_view name);
// usage: not an id.
Expected<EventId> id_of(const Request& request);

// All databases of the config, or only the named one. usage: no database has that name.
app::Expected<std::vector<const config::StoreConfig*>> databases_of(const config::Config& config,
                                                                    std::string_view name);

// The body of a change. usage: it is not an object, or it has a name that is not in `names`.
Expected<Json> body_of(const Request& request, std::initializer_list<std::string_view> names);
// Of a body; the default if it is not there. usage: another kind of value.
Expected<std::string> text_in(const Json& body, const char* name);
Expected<bool> flag_in(const Json& body, const char* name);
// usage: empty.
Expected<std::string> reason_in(const Json& body);

// A decision about one event: its id is in the path, and the body has nothing but the reason.
struct Decision {
  EventId id{};
  std::string reason;
};
Expected<Decision> decision_of(const Request& request);

// A store that did not answer. The others' rows are given all the same.
struct Silent {
  std::string store;
  std::string text;
};
Json json_of(const std::vector<Silent>& silent);

// As the audit of a database keeps it, which itself knows only the login of the daemon.
std::string spoken_reason(const Request& request, const Identity& who, const std::string& reason);

}  // namespace dovetail::console

#include "commands/requests.h"

#include <nlohmann/json.hpp>

#include "commands/commands.h"
#include "commands/output.h"
#include "config/units.h"
#include "core/check.h"
#include "host/host.h"
#include "sqlite/work/requests.h"
#ifdef DOVETAIL_HAS_POSTGRES
#include "postgres/work/requests.h"
#endif

namespace dovetail::app {

namespace {

bool is_postgres(const config::StoreConfig& store) {
  DOVETAIL_CHECK(!store.is_broker());
  return store.scheme == config::StoreScheme::postgres;
}

constexpr std::string_view kStates[] = {"running", "unknown", "finished"};

}  // namespace

std::unique_ptr<RequestStore> make_request_store(const config::StoreConfig& store,
                                                 [[maybe_unused]] Duration limit) {
#ifdef DOVETAIL_HAS_POSTGRES
  if (is_postgres(store))
    return std::make_unique<postgres::PostgresRequestStore>(store.conninfo, limit);
#endif
  DOVETAIL_CHECK(!is_postgres(store));
  return std::make_unique<sqlite::SqliteRequestStore>(store.path.string(), system_clock(),
                                                      boot_id());
}

Result<std::vector<RequestInfo>> list_requests(const config::StoreConfig& store,
                                               const RequestFilter& filter) {
#ifdef DOVETAIL_HAS_POSTGRES
  if (is_postgres(store)) return postgres::list_requests(store.conninfo, filter);
#endif
  return sqlite::list_requests(store.path.string(), filter, system_clock(), boot_id());
}

Result<bool> forget_request(const config::StoreConfig& store, const RequestKey& request,
                            [[maybe_unused]] std::string_view reason) {
#ifdef DOVETAIL_HAS_POSTGRES
  if (is_postgres(store)) return postgres::forget_request(store.conninfo, request, reason);
#endif
  return sqlite::forget_request(store.path.string(), request, system_clock(), boot_id());
}

Result<std::uint64_t> prune_requests(const config::StoreConfig& store, std::size_t rows_max) {
#ifdef DOVETAIL_HAS_POSTGRES
  if (is_postgres(store)) return postgres::prune_requests(store.conninfo, rows_max);
#endif
  return sqlite::prune_requests(store.path.string(), rows_max, system_clock(), boot_id());
}

Answer requests_list(const CommandContext& context, const RequestsOptions& options) {
  const auto config = load(context);
  if (!config) return tl::unexpected(config.error());
  const auto store = choose_store(*config, options.store);
  if (!store) return tl::unexpected(store.error());
  RequestFilter filter;
  filter.limit = options.limit;
  if (options.state == kStates[0]) filter.state = RequestState::running;
  if (options.state == kStates[1]) filter.state = RequestState::unknown;
  if (options.state == kStates[2]) filter.state = RequestState::finished;
  const auto found = list_requests(**store, filter);
  if (!found) return refuse_in(**store, found.error());
  const WallTime now = wall_now();
  if (context.json) {
    Json list = Json::array();
    for (const RequestInfo& one : *found)
      list.push_back({{"scope", one.scope},
                      {"key", one.key},
                      {"shown", shown_key(one.key)},
                      {"state", to_string(one.state)},
                      {"attempts", one.attempts},
                      {"status", one.status},
                      {"created_at", config::iso_time(one.created_at)},
                      {"expires_at", config::iso_time(one.expires_at)}});
    print_json({{"requests", list}});
    return Exit::ok;
  }
  Table table({"scope", "key", "in logs", "state", ">attempts", ">status", "begun", "expires"});
  for (const RequestInfo& one : *found)
    table.add({printable(one.scope), printable(one.key), shown_key(one.key),
               std::string(to_string(one.state)), std::to_string(one.attempts),
               one.status == 0 ? "-" : std::to_string(one.status), ago(one.created_at, now),
               config::iso_time(one.expires_at)});
  print(table.rows() == 0 ? "no requests\n" : table.to_string());
  return Exit::ok;
}

Answer requests_forget(const CommandContext& context, const RequestsOptions& options) {
  const auto config = load(context);
  if (!config) return tl::unexpected(config.error());
  const auto store = choose_store(*config, options.store);
  if (!store) return tl::unexpected(store.error());
  const auto done = forget_request(**store, {options.scope, options.key}, options.reason);
  if (!done) return refuse_in(**store, done.error());
  if (!*done)
    return refuse(
        Exit::rejected,
        "no such request is finished or unknown: there is none, or it runs; see 'dovetail "
        "requests list'");
  if (context.json)
    print_json({{"forgotten", 1}});
  else
    print("forgotten: the next request with this key runs\n");
  return Exit::ok;
}

}  // namespace dovetail::app

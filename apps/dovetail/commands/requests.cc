#include <nlohmann/json.hpp>

#include "assembly/database.h"
#include "commands/command_line.h"
#include "commands/commands.h"
#include "commands/output.h"
#include "config/units.h"
#include "host/host.h"

namespace dovetail::app {

using namespace assembly;

namespace {

struct RequestsOptions {
  std::string store;
  std::string state;  // running, unknown, finished; empty: all
  std::string scope;
  std::string key;
  std::string reason;
  std::uint64_t limit = 50;
};

constexpr std::string_view kStates[] = {"running", "unknown", "finished"};

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
  const auto found = database_of(**store)->list_requests(filter);
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
  const auto done =
      database_of(**store)->forget_request({options.scope, options.key}, options.reason);
  if (!done) return refuse_in(**store, done.error());
  if (!*done)
    return refuse(
        Exit::rejected,
        "no finished or unknown request has this key: it does not exist or still runs; see "
        "'dovetail requests list'");
  if (context.json)
    print_json({{"forgotten", 1}});
  else
    print("forgotten: the next request with this key runs\n");
  return Exit::ok;
}

}  // namespace

void add_requests(Command& app) {
  const auto options = std::make_shared<RequestsOptions>();
  Command sub = app.command(
      "requests", "List or forget the HTTP requests that are stored by idempotency key",
      "  dovetail requests --store orders --state unknown    requests with an unknown outcome\n"
      "  dovetail requests forget KEY --store orders --scope gateway --reason "
      "'the order does not exist'");
  sub.option("--store", options->store, "Name of the store in the config file");
  sub.option("--state", options->state, "Only requests in this state")
      .one_of({"running", "unknown", "finished"});
  sub.option("--limit", options->limit, "Maximum number of requests, oldest first")
      .shows_default()
      .range(1, 100000);
  const Action list = [options](const CommandContext& context) {
    return requests_list(context, *options);
  };
  sub.command("list", "List requests", "", list);
  Command forget = sub.command(
      "forget", "Let the next request with this key run",
      "For a finished request, or for an unknown one after you have checked its effect. Not while "
      "it runs.",
      [options](const CommandContext& context) { return requests_forget(context, *options); });
  forget.option("key", options->key, "The key").required();
  forget.option("--scope", options->scope, "The owner of the key, as in the list").required();
  forget.option("--reason", options->reason, "Why; PostgreSQL records it in dovetail.audit")
      .required();
  sub.otherwise(list);
}

}  // namespace dovetail::app

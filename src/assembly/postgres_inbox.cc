#include "assembly/postgres_inbox.h"

#include <utility>
#include <vector>

#include "assembly/consumer_lane.h"
#include "core/inbox/inbox.h"
#include "postgres/inbox/function_check.h"
#include "postgres/inbox/handlers.h"
#include "postgres/schema/schema.h"
#include "postgres/work/queue.h"

namespace dovetail::assembly {
namespace {

using config::ConsumerConfig;
using config::HandlerConfig;
using config::StoreConfig;

Result<postgres::TransactionHandler> handler_of(const ConsumerConfig& consumer,
                                                const HandlerConfig& handler) {
  const std::string name = inbox_name(consumer, handler);
  if (handler.kind == HandlerConfig::Kind::queue)
    return postgres::queue_handler(name, handler.types);
  return postgres::sql_function(name, handler.types, handler.function, handler.batch);
}

}  // namespace

std::shared_ptr<Sink> make_postgres_inbox(const std::string& conninfo,
                                          const config::RelayConfig& relay, std::uint32_t lane,
                                          bool version_guard,
                                          std::vector<postgres::TransactionHandler> handlers) {
  postgres::InboxStoreOptions options;
  options.conninfo = conninfo;
  options.consumer = relay.name;
  options.lane = lane;
  options.version_guard = version_guard;
  options.handlers = std::move(handlers);
  return inbox_on(std::make_unique<postgres::PostgresInboxStore>(std::move(options)),
                  {.attempts_max = deaths_max(relay.options.attempts_max)});
}

Result<std::shared_ptr<Sink>> make_postgres_inbox(const StoreConfig& store,
                                                  const ConsumerConfig& consumer,
                                                  std::uint32_t lane) {
  std::vector<postgres::TransactionHandler> handlers;
  for (const HandlerConfig& handler : consumer.handlers) {
    if (handler.is_external()) continue;
    auto made = handler_of(consumer, handler);
    if (!made) return fail(made.error().code, handler.where + ": " + made.error().text);
    handlers.push_back(std::move(*made));
  }
  return make_postgres_inbox(store.conninfo, consumer.relay, lane, consumer.version_guard,
                             std::move(handlers));
}

Status check_postgres_handlers(const StoreConfig& store, const ConsumerConfig& consumer) {
  for (const HandlerConfig& handler : consumer.handlers) {
    if (handler.is_external()) continue;
    if (const auto made = handler_of(consumer, handler); !made)
      return fail(made.error().code, handler.where + ": " + made.error().text);
  }
  auto connection = postgres::Connection::open(store.conninfo);
  if (!connection) return fail(connection.error());
  DOVETAIL_TRY(postgres::check_schema(*connection));
  for (const HandlerConfig& handler : consumer.handlers) {
    if (handler.kind != HandlerConfig::Kind::sql) continue;
    const Status usable = postgres::check_function(*connection, handler.function, handler.batch);
    if (!usable) return fail(usable.error().code, handler.where + ": " + usable.error().text);
  }
  return {};
}

}  // namespace dovetail::assembly

#include "assembly/postgres_inbox.h"

#include <utility>
#include <vector>

#include "assembly/consumer_lane.h"
#include "core/inbox/inbox.h"
#include "postgres/inbox/function_check.h"
#include "postgres/inbox/handlers.h"
#include "postgres/inbox/inbox_store.h"
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

Result<std::shared_ptr<Sink>> make_postgres_inbox(const StoreConfig& store,
                                                  const ConsumerConfig& consumer,
                                                  std::uint32_t lane) {
  postgres::InboxStoreOptions options;
  options.conninfo = store.conninfo;
  options.consumer = consumer.relay.name;
  options.lane = lane;
  options.version_guard = consumer.version_guard;
  for (const HandlerConfig& handler : consumer.handlers) {
    if (handler.is_external()) continue;
    auto made = handler_of(consumer, handler);
    if (!made) return fail(made.error().code, handler.where + ": " + made.error().text);
    options.handlers.push_back(std::move(*made));
  }
  return inbox_on(std::make_unique<postgres::PostgresInboxStore>(std::move(options)),
                  {.attempts_max = deaths_max(consumer.relay.options.attempts_max)});
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

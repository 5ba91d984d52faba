// Consumers of an application whose inbox is in PostgreSQL.
#include "dovetail/postgres_consumer.h"

#include <utility>

#include "assembly/library/own_consumer.h"
#include "assembly/postgres_inbox.h"
#include "postgres/schema/schema.h"

namespace dovetail::postgres {
namespace {

Status check_database(const std::string& conninfo) {
  Result<Connection> connection = Connection::open(conninfo);
  if (!connection) return fail(connection.error());
  const Result<std::int64_t> version = check_schema(*connection);
  return version ? Status{} : fail(version.error());
}

config::StoreConfig store_of(const std::string& conninfo) {
  config::StoreConfig store;
  store.scheme = config::StoreScheme::postgres;
  store.conninfo = conninfo;
  return store;
}

}  // namespace

Result<std::unique_ptr<Consumer>> Consumer::open(ConsumerOptions options, Handler handler) {
  NamedHandler only;
  only.each = std::move(handler);
  return open(std::move(options), std::vector<NamedHandler>{std::move(only)});
}

Result<std::unique_ptr<Consumer>> Consumer::open(ConsumerOptions options,
                                                 std::vector<NamedHandler> handlers) {
  DOVETAIL_TRY(assembly::check_options(options));
  const auto names = assembly::inbox_names_of(options.name, handlers);
  if (!names) return fail(names.error());
  std::vector<TransactionHandler> made;
  for (std::size_t i = 0; i < handlers.size(); ++i) {
    NamedHandler& one = handlers[i];
    made.push_back(
        one.each ? cpp_handler((*names)[i], std::move(one.types), std::move(one.each))
                 : cpp_batch_handler((*names)[i], std::move(one.types), std::move(one.batch)));
  }
  DOVETAIL_TRY(check_database(options.database));
  if (!options.from.empty()) DOVETAIL_TRY(check_database(options.from));
  assembly::OwnConsumerPlan plan;
  plan.store = store_of(options.database);
  plan.from = store_of(options.from.empty() ? options.database : options.from);
  plan.source = options.origin.make ? SourceKind::broker : SourceKind::outbox;
  plan.options = std::move(options);
  plan.make_inbox = [conninfo = plan.options.database, guard = plan.options.version_guard,
                     made = std::move(made)](const config::RelayConfig& relay, std::uint32_t lane) {
    return assembly::make_postgres_inbox(conninfo, relay, lane, guard, made);
  };
  return assembly::Opened<Consumer>::make(std::move(plan));
}

}  // namespace dovetail::postgres

// Consumers of an application whose inbox is in a SQLite file.
#include <utility>

#include "assembly/library/own_consumer.h"
#include "core/inbox/inbox.h"
#include "dovetail/sqlite.h"
#include "host/host.h"
#include "sqlite/connection/database.h"
#include "sqlite/inbox/inbox_store.h"
#include "sqlite/lane/reader.h"

namespace dovetail::sqlite {
namespace {

Status check(const ConsumerOptions& options) {
  DOVETAIL_TRY(assembly::check_options(options));
  const char* wrong = nullptr;
  if (options.parallel != 1)
    wrong =
        "ConsumerOptions::parallel is above 1, but a SQLite file has one writer at a time; set it "
        "to 1, or use PostgreSQL";
  if (options.version_guard)
    wrong = "ConsumerOptions::version_guard needs PostgreSQL; a SQLite file keeps no versions";
  if (wrong != nullptr) return fail(Errc::rejected, wrong);
  return {};
}

config::StoreConfig store_of(const std::string& path) {
  config::StoreConfig store;
  store.scheme = config::StoreScheme::sqlite;
  store.path = path;
  return store;
}

// Finds a file or name that cannot be used before the consumer runs.
Status check_file(const assembly::OwnConsumerPlan& plan) {
  Reader reader;
  reader.path = plan.from.path.string();
  reader.name = plan.options.name;
  reader.source = plan.source;
  if (plan.source == SourceKind::mailbox) reader.topics = plan.options.topics;
  Result<Database> source = open_store(reader.path);
  if (!source) return fail(source.error());
  return ensure_reader(*source, reader);
}

}  // namespace

Result<std::unique_ptr<Consumer>> Consumer::open(ConsumerOptions options, Handler handler) {
  NamedHandler only;
  only.each = std::move(handler);
  return open(std::move(options), std::vector<NamedHandler>{std::move(only)});
}

Result<std::unique_ptr<Consumer>> Consumer::open(ConsumerOptions options,
                                                 std::vector<NamedHandler> handlers) {
  DOVETAIL_TRY(check(options));
  const auto names = assembly::inbox_names_of(options.name, handlers);
  if (!names) return fail(names.error());
  std::vector<TransactionHandler> made;
  for (std::size_t i = 0; i < handlers.size(); ++i) {
    NamedHandler& one = handlers[i];
    made.push_back({(*names)[i], std::move(one.types),
                    one.each ? for_each(std::move(one.each)) : std::move(one.batch)});
  }
  DOVETAIL_TRY(ensure_store(options.database));
  assembly::OwnConsumerPlan plan;
  plan.store = store_of(options.database);
  plan.from = store_of(options.from.empty() ? options.database : options.from);
  plan.source = options.origin.make    ? SourceKind::broker
                : options.from.empty() ? SourceKind::mailbox
                                       : SourceKind::outbox;
  plan.options = std::move(options);
  DOVETAIL_TRY(check_file(plan));
  plan.make_inbox = [path = plan.options.database, made = std::move(made)](
                        const config::RelayConfig& relay, std::uint32_t) {
    return inbox_on(std::make_unique<SqliteInboxStore>(path, relay.name, made, system_clock()),
                    InboxOptions{deaths_max(relay.options.attempts_max)});
  };
  return assembly::Opened<Consumer>::make(std::move(plan));
}

}  // namespace dovetail::sqlite

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

// An inbox with its store. Its session ends well when it is destroyed, and otherwise with the
// process.
class InboxSession final : public Sink {
 public:
  InboxSession(postgres::InboxStoreOptions store, InboxOptions options)
      : store_(std::move(store)), inbox_(store_, options) {}
  ~InboxSession() override {
    if (is_open_) (void)inbox_.close();
  }

  Status open() override {
    DOVETAIL_TRY(inbox_.open());
    is_open_ = true;
    return {};
  }
  Status submit(Events events) override { return inbox_.submit(events); }
  Result<bool> collect(std::span<Outcome> outcomes, Duration timeout) override {
    return inbox_.collect(outcomes, timeout);
  }
  bool keeps_order_on_failure() const override { return inbox_.keeps_order_on_failure(); }

 private:
  postgres::PostgresInboxStore store_;
  Inbox inbox_;
  bool is_open_ = false;
};

Result<postgres::TransactionHandler> handler_of(const ConsumerConfig& consumer,
                                                const HandlerConfig& handler) {
  const std::string name = inbox_name(consumer, handler);
  if (handler.kind == HandlerConfig::Kind::queue)
    return postgres::queue_handler(name, handler.types);
  return postgres::sql_function(name, handler.types, handler.function, handler.batch);
}

}  // namespace

Result<std::unique_ptr<Sink>> make_postgres_inbox(const StoreConfig& store,
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
  return std::make_unique<InboxSession>(
      std::move(options),
      InboxOptions{.attempts_max = deaths_max(consumer.relay.options.attempts_max)});
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

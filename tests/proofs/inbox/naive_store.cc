#include "proofs/inbox/naive_store.h"

#include <set>

#include "dovetail/postgres.h"

namespace dovetail::shop {
namespace {

using postgres::Connection;
using postgres::Params;
using postgres::Rows;

// One round trip for each statement.
class PlainInvocation final : public postgres::Invocation {
 public:
  explicit PlainInvocation(Connection& connection) : connection_(connection) {}
  Status queue(std::string_view sql, std::initializer_list<postgres::Param> params) override {
    Params given;
    for (const postgres::Param& param : params) given.unknown(param.value);
    const Result<Rows> done = connection_.query(sql, given);
    if (!done) return fail(done.error());
    return {};
  }
  Result<EventId> publish(const NewEvent& event) override {
    return postgres::publish(connection_.get(), event);
  }
  Result<pg_conn*> connection() override { return connection_.get(); }

 private:
  Connection& connection_;
};

}  // namespace

Status create_naive_table(const std::string& conninfo) {
  Result<Connection> connection = Connection::open(conninfo);
  if (!connection) return fail(connection.error());
  return connection->execute("CREATE TABLE IF NOT EXISTS naive_inbox (event_id uuid PRIMARY KEY)");
}

Result<bool> NaiveStore::open() {
  Result<Connection> opened = Connection::open(options_.conninfo);
  if (!opened) return fail(opened.error());
  connection_ = std::move(*opened);
  return true;
}

Status NaiveStore::begin() {
  ids_.clear();
  return connection_.execute("BEGIN");
}

Status NaiveStore::insert(Events events, std::span<Arrival> arrivals) {
  for (const Event* event : events) ids_.push_back(event->id);
  const bool adds = options_.scheme == Scheme::row_first;
  const Result<Rows> rows =
      connection_.query(adds ? "INSERT INTO naive_inbox SELECT * FROM unnest($1::uuid[]) "
                               "ON CONFLICT DO NOTHING RETURNING event_id"
                             : "SELECT event_id FROM naive_inbox WHERE event_id = ANY ($1::uuid[])",
                        Params().uuid_array(ids_));
  if (!rows) return fail(rows.error());
  std::set<EventId> listed;
  for (std::size_t row = 0; row < rows->size(); ++row) listed.insert(rows->uuid(row, 0));
  for (std::size_t i = 0; i < events.size(); ++i) {
    const bool is_new = listed.contains(events[i]->id) == adds;
    arrivals[i] = is_new ? Arrival::first : Arrival::duplicate;
  }
  if (!adds) return {};
  DOVETAIL_TRY(connection_.execute("COMMIT"));
  options_.between();
  return connection_.execute("BEGIN");
}

Status NaiveStore::apply(Events events) {
  PlainInvocation invocation(connection_);
  for (const Event* event : events) DOVETAIL_TRY(options_.handler(invocation, *event));
  return {};
}

Status NaiveStore::add_rows() {
  const Result<Rows> added = connection_.query(
      "INSERT INTO naive_inbox SELECT * FROM unnest($1::uuid[]) ON CONFLICT DO NOTHING",
      Params().uuid_array(ids_));
  if (!added) return fail(added.error());
  return {};
}

Status NaiveStore::commit(std::uint64_t, std::uint64_t) {
  if (options_.scheme == Scheme::look_then_act) DOVETAIL_TRY(add_rows());
  DOVETAIL_TRY(connection_.execute("COMMIT"));
  if (options_.scheme != Scheme::effect_first) return {};
  options_.between();
  return add_rows();
}

void NaiveStore::rollback() { (void)connection_.execute("ROLLBACK"); }

Result<std::uint32_t> NaiveStore::count_attempt(const EventId&, std::int64_t) { return 1; }

Status NaiveStore::close() { return {}; }

}  // namespace dovetail::shop

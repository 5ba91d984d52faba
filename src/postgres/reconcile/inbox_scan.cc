#include "postgres/reconcile/inbox_scan.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "postgres/connection/connection.h"
#include "postgres/reconcile/held_rows.h"
#include "postgres/schema/schema.h"

namespace dovetail::postgres {

namespace {

using reconcile::Received;

// $1 and $2 the last row, $3 rows. Rows of other consumers are left out afterwards: with a
// condition for them the server would sort everything that follows, for every page.
constexpr std::string_view kApplied =
    "SELECT i.event_id, i.consumer_id, i.applied_at, i.digest, i.available_at FROM dovetail.inbox "
    "AS i WHERE (i.event_id, i.consumer_id) > ($1, $2) ORDER BY i.event_id, i.consumer_id LIMIT $3";

struct Handlers {
  std::vector<std::int32_t> ids{};
  std::vector<std::string> names{};
};

class InboxRows final : public reconcile::Pages<Received> {
 public:
  InboxRows(Connection& connection, const std::vector<std::int32_t>& handlers)
      : connection_(connection), handlers_(handlers) {}

 protected:
  Status read_page(std::vector<Received>& page) override {
    while (page.empty()) {
      const Result<Rows> rows = connection_.query(
          kApplied, Params().uuid(last_).int4(last_handler_).int8(reconcile::kPageRows));
      if (!rows) return fail(rows.error());
      if (rows->empty()) return {};
      add(*rows, page);
    }
    return {};
  }

 private:
  void add(const Rows& rows, std::vector<Received>& page) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      last_ = rows.uuid(i, 0);
      last_handler_ = rows.int4(i, 1);
      const auto place = std::find(handlers_.begin(), handlers_.end(), last_handler_);
      if (place == handlers_.end()) continue;
      Received& row = page.emplace_back();
      row.id = last_;
      row.receiver = static_cast<std::uint32_t>(place - handlers_.begin());
      row.at = rows.timestamptz(i, 2);
      if (!rows.is_null(i, 3)) row.digest = rows.int8(i, 3);
      if (!rows.is_null(i, 4)) row.available_at = rows.timestamptz(i, 4);
    }
  }

  Connection& connection_;
  const std::vector<std::int32_t>& handlers_;
  EventId last_{};
  std::int32_t last_handler_ = 0;
};

class PostgresInboxScan final : public reconcile::ReceiverScan {
 public:
  PostgresInboxScan(Connection connection, reconcile::Place place, const std::string& consumer,
                    Handlers handlers)
      : connection_(std::move(connection)),
        place_(std::move(place)),
        handlers_(std::move(handlers)),
        rows_(connection_, handlers_.ids),
        held_(connection_, consumer, place_.at) {}

  const std::vector<std::string>& names() const override { return handlers_.names; }
  reconcile::Stream<Received>& rows() override { return rows_; }
  reconcile::Stream<reconcile::Held>* held() override { return &held_; }
  const reconcile::Place& place() const override { return place_; }

  Result<WallTime> retained_since() override {
    const Result<Rows> rows = connection_.query(
        "SELECT max(f.until) FROM dovetail.forgetting AS f WHERE f.consumer_id = ANY ($1)",
        Params().int4_array(handlers_.ids));
    if (!rows) return fail(rows.error());
    return rows->is_null(0, 0) ? WallTime::min() : rows->timestamptz(0, 0);
  }

 private:
  Connection connection_;
  const reconcile::Place place_;
  const Handlers handlers_;
  InboxRows rows_;
  HeldRows held_;
};

// A consumer whose handlers have names has no rows of its own.
Result<Handlers> find_handlers(Connection& connection, const std::string& consumer,
                               const std::vector<std::string>& wanted) {
  const Result<Rows> rows = connection.query(
      "SELECT c.id, c.name FROM dovetail.consumer AS c WHERE c.name = $1 OR "
      "pg_catalog.starts_with(c.name, $1 || '.') ORDER BY c.name",
      Params().text(consumer));
  if (!rows) return fail(rows.error());
  Handlers found;
  for (std::size_t i = 0; i < rows->size(); ++i) {
    const std::string_view name = rows->text(i, 1);
    const bool is_wanted = wanted.empty()
                               ? name != consumer || rows->size() == 1
                               : std::find(wanted.begin(), wanted.end(), name) != wanted.end();
    if (!is_wanted) continue;
    found.ids.push_back(rows->int4(i, 0));
    found.names.emplace_back(name);
  }
  const bool is_complete = !found.ids.empty() && found.ids.size() >= wanted.size();
  if (is_complete) return found;
  return fail(Errc::rejected, "this inbox does not know the consumer \"" + consumer +
                                  "\" with all its handlers; check the name, and that the consumer "
                                  "has run");
}

}  // namespace

std::string_view inbox_page_sql() { return kApplied; }

Result<std::unique_ptr<reconcile::ReceiverScan>> scan_inbox(
    const std::string& conninfo, const std::string& consumer,
    const std::vector<std::string>& handlers) {
  Result<Connection> connection = Connection::open(conninfo);
  if (!connection) return fail(connection.error());
  if (const auto version = check_schema(*connection); !version) return fail(version.error());
  Result<reconcile::Place> place = read_place(*connection);
  if (!place) return fail(place.error());
  Result<Handlers> found = find_handlers(*connection, consumer, handlers);
  if (!found) return fail(found.error());
  return std::make_unique<PostgresInboxScan>(std::move(*connection), std::move(*place), consumer,
                                             std::move(*found));
}

}  // namespace dovetail::postgres

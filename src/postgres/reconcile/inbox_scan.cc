#include "postgres/reconcile/inbox_scan.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "core/reconcile/handlers.h"
#include "postgres/connection/connection.h"
#include "postgres/reconcile/held_rows.h"
#include "postgres/schema/schema.h"

namespace dovetail::postgres {

namespace {

using reconcile::KnownHandler;
using reconcile::Received;

// $1 and $2 the last row, $3 rows. Rows of other consumers are left out afterwards: with a
// condition for them the server would sort everything that follows, for every page.
constexpr std::string_view kApplied =
    "SELECT i.event_id, i.consumer_id, i.applied_at, i.digest, i.available_at FROM dovetail.inbox "
    "AS i WHERE (i.event_id, i.consumer_id) > ($1, $2) ORDER BY i.event_id, i.consumer_id LIMIT $3";

std::vector<std::int32_t> ids_of(const std::vector<KnownHandler>& handlers) {
  std::vector<std::int32_t> ids;
  for (const KnownHandler& handler : handlers) ids.push_back(static_cast<std::int32_t>(handler.id));
  return ids;
}

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
                    const std::vector<KnownHandler>& handlers)
      : connection_(std::move(connection)),
        place_(std::move(place)),
        names_(reconcile::names_of(handlers)),
        ids_(ids_of(handlers)),
        rows_(connection_, ids_),
        held_(connection_, consumer, place_.at) {}

  const std::vector<std::string>& names() const override { return names_; }
  reconcile::Stream<Received>& rows() override { return rows_; }
  reconcile::Stream<reconcile::Held>* held() override { return &held_; }
  const reconcile::Place& place() const override { return place_; }

  Result<WallTime> retained_since() override {
    const Result<Rows> rows = connection_.query(
        "SELECT max(f.until) FROM dovetail.forgetting AS f WHERE f.consumer_id = ANY ($1)",
        Params().int4_array(ids_));
    if (!rows) return fail(rows.error());
    return rows->is_null(0, 0) ? WallTime::min() : rows->timestamptz(0, 0);
  }

 private:
  Connection connection_;
  const reconcile::Place place_;
  const std::vector<std::string> names_;
  const std::vector<std::int32_t> ids_;
  InboxRows rows_;
  HeldRows held_;
};

Result<std::vector<KnownHandler>> find_handlers(Connection& connection, const std::string& consumer,
                                                const std::vector<std::string>& wanted) {
  const Result<Rows> rows = connection.query(
      "SELECT c.id, c.name FROM dovetail.consumer AS c WHERE c.name = $1 OR "
      "pg_catalog.starts_with(c.name, $1 || '.')",
      Params().text(consumer));
  if (!rows) return fail(rows.error());
  std::vector<KnownHandler> known;
  for (std::size_t i = 0; i < rows->size(); ++i)
    known.push_back({rows->int4(i, 0), std::string(rows->text(i, 1))});
  return reconcile::choose_handlers(std::move(known), consumer, wanted);
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
  const Result<std::vector<KnownHandler>> found = find_handlers(*connection, consumer, handlers);
  if (!found) return fail(found.error());
  return std::make_unique<PostgresInboxScan>(std::move(*connection), std::move(*place), consumer,
                                             *found);
}

}  // namespace dovetail::postgres

#include "sqlite/reconcile/inbox_scan.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/reconcile/handlers.h"
#include "sqlite/reconcile/held_rows.h"

namespace dovetail::sqlite {

namespace {

using reconcile::KnownHandler;
using reconcile::Received;

// ?1 the handler, ?2 the last id, ?3 rows.
constexpr std::string_view kApplied =
    "SELECT event_id, applied_at, digest, available_at FROM dovetail_inbox WHERE consumer_id = ?1 "
    "AND event_id > ?2 ORDER BY event_id LIMIT ?3";

// The rows of one handler.
class HandlerRows final : public reconcile::Pages<Received> {
 public:
  HandlerRows(const Database& database, std::int64_t handler, std::uint32_t receiver)
      : database_(database), handler_(handler), receiver_(receiver) {}

 protected:
  Status read_page(std::vector<Received>& page) override {
    Result<Statement> select = database_.prepare(kApplied);
    if (!select) return fail(select.error());
    select->bind(1, handler_).bind_id(2, last_).bind(3, reconcile::kPageRows);
    for (;;) {
      const Result<bool> row = select->step();
      if (!row) return fail(row.error());
      if (!*row) break;
      Received& one = page.emplace_back();
      one.id = select->id(0);
      one.receiver = receiver_;
      one.at = from_stored(select->integer(1));
      if (!select->is_null(2)) one.digest = select->integer(2);
      if (!select->is_null(3)) one.available_at = from_stored(select->integer(3));
    }
    if (!page.empty()) last_ = page.back().id;
    return {};
  }

 private:
  const Database& database_;
  const std::int64_t handler_;
  const std::uint32_t receiver_;
  EventId last_{};
};

// The rows of all handlers in one order.
class InboxRows final : public reconcile::Stream<Received> {
 public:
  InboxRows(const Database& database, const std::vector<KnownHandler>& handlers) {
    for (const KnownHandler& handler : handlers)
      streams_.push_back(std::make_unique<HandlerRows>(
          database, handler.id, static_cast<std::uint32_t>(streams_.size())));
    first_.resize(streams_.size());
  }

  Result<const Received*> next() override {
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      const bool is_due = !is_begun_ || i == taken_;
      if (!is_due) continue;
      const Result<const Received*> row = streams_[i]->next();
      if (!row) return fail(row.error());
      first_[i] = *row;
    }
    is_begun_ = true;
    taken_ = streams_.size();
    for (std::size_t i = 0; i < first_.size(); ++i) {
      if (first_[i] == nullptr) continue;
      if (taken_ == first_.size() || first_[i]->id < first_[taken_]->id) taken_ = i;
    }
    return taken_ == first_.size() ? nullptr : first_[taken_];
  }

 private:
  std::vector<std::unique_ptr<HandlerRows>> streams_{};
  std::vector<const Received*> first_{};
  std::size_t taken_ = 0;  // the stream of the row that the caller has
  bool is_begun_ = false;
};

class SqliteInboxScan final : public reconcile::ReceiverScan {
 public:
  SqliteInboxScan(Database database, reconcile::Place place, const std::string& consumer,
                  const Passed& passed, std::vector<KnownHandler> handlers)
      : database_(std::move(database)),
        place_(std::move(place)),
        handlers_(std::move(handlers)),
        names_(reconcile::names_of(handlers_)),
        rows_(database_, handlers_),
        held_(database_, consumer, passed, place_.at) {}

  const std::vector<std::string>& names() const override { return names_; }
  reconcile::Stream<Received>& rows() override { return rows_; }
  reconcile::Stream<reconcile::Held>* held() override { return &held_; }
  const reconcile::Place& place() const override { return place_; }

  Result<WallTime> retained_since() override {
    Result<Statement> select =
        database_.prepare("SELECT forgotten_until FROM dovetail_consumer WHERE id = ?1");
    if (!select) return fail(select.error());
    WallTime since = WallTime::min();
    for (const KnownHandler& handler : handlers_) {
      const Reading reading(*select);
      const Result<bool> row = select->bind(1, handler.id).step();
      if (!row) return fail(row.error());
      if (*row && select->integer(0) != 0) since = std::max(since, from_stored(select->integer(0)));
    }
    return since;
  }

 private:
  Database database_;
  const reconcile::Place place_;
  const std::vector<KnownHandler> handlers_;
  const std::vector<std::string> names_;
  InboxRows rows_;
  HeldRows held_;
};

Result<std::vector<KnownHandler>> find_handlers(const Database& database,
                                                const std::string& consumer,
                                                const std::vector<std::string>& wanted) {
  Result<Statement> select = database.prepare(
      "SELECT id, name FROM dovetail_consumer WHERE name = ?1 OR substr(name, 1, length(?1) + 1) = "
      "?1 || '.'");
  if (!select) return fail(select.error());
  select->bind_text(1, consumer);
  std::vector<KnownHandler> known;
  for (;;) {
    const Result<bool> row = select->step();
    if (!row) return fail(row.error());
    if (!*row) break;
    known.push_back({select->integer(0), std::string(select->bytes(1))});
  }
  return reconcile::choose_handlers(std::move(known), consumer, wanted);
}

}  // namespace

Result<std::unique_ptr<reconcile::ReceiverScan>> scan_inbox(
    const std::string& path, const std::string& consumer, const std::vector<std::string>& handlers,
    Clock& clock) {
  Result<Database> database = open_store(path);
  if (!database) return fail(database.error());
  const reconcile::Place place{.at = clock.wall()};
  const Result<Passed> passed = read_passed(*database, consumer);
  if (!passed) return fail(passed.error());
  Result<std::vector<KnownHandler>> found = find_handlers(*database, consumer, handlers);
  if (!found) return fail(found.error());
  return std::make_unique<SqliteInboxScan>(std::move(*database), place, consumer, *passed,
                                           std::move(*found));
}

}  // namespace dovetail::sqlite

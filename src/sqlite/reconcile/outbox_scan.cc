#include "sqlite/reconcile/outbox_scan.h"

#include <string_view>
#include <utility>
#include <vector>

#include "core/event/batch.h"
#include "core/inbox/forgotten.h"
#include "sqlite/connection/event_columns.h"
#include "sqlite/reconcile/held_rows.h"

namespace dovetail::sqlite {

namespace {

using reconcile::Progress;
using reconcile::Published;

// ?1 the last id, ?2 rows.
const std::string kEvents = "SELECT " + std::string(kEventColumns) +
                            ", seq FROM dovetail_outbox WHERE id > ?1 ORDER BY id LIMIT ?2";

class OutboxRows final : public reconcile::Pages<Published> {
 public:
  OutboxRows(const Database& database, Passed passed, WallTime from, WallTime to)
      : database_(database), passed_(std::move(passed)), from_(from), to_(to) {}

 protected:
  Status read_page(std::vector<Published>& page) override {
    Result<Statement> select = database_.prepare(kEvents);
    if (!select) return fail(select.error());
    select->bind_id(1, last_).bind(2, reconcile::kPageRows);
    names_.clear();
    for (;;) {
      const Result<bool> row = select->step();
      if (!row) return fail(row.error());
      if (!*row) break;
      add(read_event(*select, select->integer(kEventColumnCount), 0), page);
    }
    if (!page.empty()) last_ = page.back().event.id;
    return {};
  }

 private:
  void add(Event event, std::vector<Published>& page) {
    Published& row = page.emplace_back();
    const bool is_judged = event.created_at >= from_ && event.created_at < to_;
    if (is_judged) row.digest = payload_digest(event.payload);
    event.payload = {};
    row.event = names_.append(event);
    row.progress = has_passed(event) ? Progress::delivered : Progress::pending;
  }

  bool has_passed(const Event& event) const {
    if (passed_.source != "outbox" || event.position > passed_.seq) return false;
    const std::string line = "\n" + std::string(event.topic) + "\n";
    return passed_.topics.empty() || passed_.topics.find(line) != std::string::npos;
  }

  const Database& database_;
  const Passed passed_;
  const WallTime from_;
  const WallTime to_;
  Batch names_{};  // what the page points into
  EventId last_{};
};

class SqliteOutboxScan final : public reconcile::OutboxScan {
 public:
  SqliteOutboxScan(Database database, const std::string& relay, const Passed& passed,
                   reconcile::Place place, std::uint64_t estimate, WallTime from, WallTime to)
      : database_(std::move(database)),
        place_(std::move(place)),
        estimate_(estimate),
        events_(database_, passed, from, to),
        held_(database_, relay, Passed{}, place_.at) {}

  reconcile::Stream<Published>& events() override { return events_; }
  reconcile::Stream<reconcile::Held>& held() override { return held_; }
  const reconcile::Place& place() const override { return place_; }
  std::uint64_t events_estimate() const override { return estimate_; }

  // Nothing was deleted as long as the first row is there.
  Result<reconcile::Retained> retained() override {
    Result<Statement> oldest =
        database_.prepare("SELECT seq, created_at FROM dovetail_outbox ORDER BY seq LIMIT 1");
    if (!oldest) return fail(oldest.error());
    const Result<bool> row = oldest->step();
    if (!row) return fail(row.error());
    if (*row && oldest->integer(0) == 1) return reconcile::Retained{WallTime::min()};
    return reconcile::Retained{*row ? from_stored(oldest->integer(1)) : place_.at};
  }

  Result<std::vector<EventId>> find_now(std::span<const EventId> ids) override {
    Result<Statement> select = database_.prepare("SELECT 1 FROM dovetail_outbox WHERE id = ?1");
    if (!select) return fail(select.error());
    std::vector<EventId> found;
    for (const EventId& id : ids) {
      const Reading reading(*select);
      const Result<bool> row = select->bind_id(1, id).step();
      if (!row) return fail(row.error());
      if (*row) found.push_back(id);
    }
    return found;
  }

 private:
  Database database_;
  const reconcile::Place place_;
  const std::uint64_t estimate_;
  OutboxRows events_;
  HeldRows held_;
};

Result<std::uint64_t> estimate_of(const Database& database) {
  Result<Statement> count =
      database.prepare("SELECT coalesce(max(seq) - min(seq) + 1, 0) FROM dovetail_outbox");
  if (!count) return fail(count.error());
  const Result<bool> row = count->step();
  if (!row) return fail(row.error());
  return static_cast<std::uint64_t>(count->integer(0));
}

}  // namespace

Result<std::unique_ptr<reconcile::OutboxScan>> scan_outbox(const std::string& path,
                                                           const std::string& relay, WallTime from,
                                                           WallTime to, Clock& clock) {
  Result<Database> database = open_store(path);
  if (!database) return fail(database.error());
  // First the time: what was parked then and is delivered now must not be taken for missing.
  const reconcile::Place place{.at = clock.wall()};
  const Result<Passed> passed = read_passed(*database, relay);
  if (!passed) return fail(passed.error());
  const Result<std::uint64_t> estimate = estimate_of(*database);
  if (!estimate) return fail(estimate.error());
  return std::make_unique<SqliteOutboxScan>(std::move(*database), relay, *passed, place, *estimate,
                                            from, to);
}

}  // namespace dovetail::sqlite

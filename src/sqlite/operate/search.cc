#include "sqlite/operate/search.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "sqlite/connection/database.h"
#include "sqlite/lane/reader.h"
#include "sqlite/operate/event_rows.h"

namespace dovetail::sqlite {

namespace {

struct Place {
  std::int64_t seq = 0;
  WallTime created_at{};
};

Result<std::optional<Place>> one_place(Database& database, const std::string& sql,
                                       std::int64_t first, std::int64_t second = 0) {
  Result<Statement> select = database.prepare(sql);
  if (!select) return fail(select.error());
  select->bind(1, first);
  if (select->parameters() > 1) select->bind(2, second);
  const Result<bool> row = select->step();
  if (!row) return fail(row.error());
  if (!*row) return std::optional<Place>();
  return std::optional<Place>({select->integer(0), from_stored(select->integer(1))});
}

// The first event with this number or a later one.
Result<std::optional<Place>> first_from(Database& database, const std::string& table,
                                        std::int64_t seq) {
  return one_place(database,
                   "SELECT seq, created_at FROM " + table + " WHERE seq >= ?1 ORDER BY seq LIMIT 1",
                   seq);
}

// The last event that this call looks at; empty: it reaches the end.
Result<std::optional<Place>> look_until(Database& database, const std::string& table,
                                        std::int64_t before, std::size_t look_max) {
  return one_place(database,
                   "SELECT seq, created_at FROM " + table +
                       " WHERE seq < ?1 ORDER BY seq DESC LIMIT 1 OFFSET ?2",
                   before, static_cast<std::int64_t>(look_max - 1));
}

// Where the search begins: every event from this number on is of `until` or later.
Result<std::int64_t> begin_at(Database& database, const std::string& table, std::int64_t before,
                              WallTime until) {
  const auto newest = look_until(database, table, before, 1);
  if (!newest) return fail(newest.error());
  if (!*newest || (*newest)->created_at < until) return before;
  const auto oldest = first_from(database, table, 0);
  if (!oldest) return fail(oldest.error());
  if (!*oldest) return before;
  std::int64_t low = (*oldest)->seq;
  std::int64_t high = (*newest)->seq;
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    const auto found = first_from(database, table, middle);
    if (!found) return fail(found.error());
    if (!*found || (*found)->created_at >= until)
      high = middle;
    else
      low = (*found)->seq + 1;
  }
  return low;
}

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

Result<std::vector<EventRow>> find(Database& database, const EventSearch& search,
                                   std::int64_t before, std::int64_t last) {
  Result<Statement> select = database.prepare(
      select_events(search.source) +
      " WHERE o.seq < ?3 AND o.seq >= ?4 AND (?2 = '' OR r.relay IS NOT NULL) AND (?5 = '' OR "
      "derived = ?5) AND (?6 = '' OR o.type = ?6) AND (?7 = '' OR o.aggregate_type = ?7) AND (?8 = "
      "'' OR o.aggregate_id = ?8) AND (?9 = '' OR o.topic = ?9) AND o.created_at >= ?10 AND "
      "o.created_at < ?11 AND (?13 = '' OR o.type = ?13 OR o.topic = ?13 OR o.aggregate_id = ?13 "
      "OR o.aggregate_type || '/' || o.aggregate_id = ?13) ORDER BY o.seq DESC, r.relay LIMIT ?12");
  if (!select) return fail(select.error());
  select->bind_text(1, to_string(search.source))
      .bind_text(2, search.relay)
      .bind(3, before)
      .bind(4, last)
      .bind_text(5, search.state ? to_string(*search.state) : std::string_view())
      .bind_text(6, search.type)
      .bind_text(7, search.aggregate_type)
      .bind_text(8, search.key)
      .bind_text(9, search.topic)
      .bind(10, search.from ? to_stored(*search.from) : std::numeric_limits<std::int64_t>::min())
      .bind(11, search.until ? to_stored(*search.until) : kMax)
      .bind(12, static_cast<std::int64_t>(search.limit + kReadersMax))
      .bind_text(13, search.word);
  return read_rows(*select, search.limit);
}

}  // namespace

Result<FoundEvents> search_events(const std::string& path, const EventSearch& search) {
  Result<Database> database = open_store(path);
  if (!database) return fail(database.error());
  const std::string table(table_of(search.source));
  std::int64_t before = search.before == 0 ? kMax : search.before;
  if (search.until) {
    const Result<std::int64_t> begin = begin_at(*database, table, before, *search.until);
    if (!begin) return fail(begin.error());
    before = std::min(before, *begin);
  }
  const auto last = look_until(*database, table, before, std::max<std::size_t>(1, search.look_max));
  if (!last) return fail(last.error());
  auto rows = find(*database, search, before, *last ? (*last)->seq : 0);
  if (!rows) return fail(rows.error());
  FoundEvents found;
  found.rows = std::move(*rows);
  if (found.rows.size() >= search.limit && search.limit > 0) {
    found.next = found.rows.back().position;
    found.looked_back_to = found.rows.back().created_at;
  } else if (*last && !(search.from && (*last)->created_at < *search.from)) {
    found.next = (*last)->seq;
    found.looked_back_to = (*last)->created_at;
  }
  return found;
}

}  // namespace dovetail::sqlite

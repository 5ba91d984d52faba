#include "sqlite/operate/search.h"

#include <limits>
#include <optional>

#include "sql/operate/search.h"
#include "sqlite/connection/database.h"
#include "sqlite/lane/reader.h"
#include "sqlite/operate/event_rows.h"

namespace dovetail::sqlite {

namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

class Box final : public SearchedBox {
 public:
  Box(Database& database, SourceKind source) : database_(database), table_(table_of(source)) {}

  Result<std::optional<Place>> first_from(std::int64_t seq) override {
    return place("SELECT seq, created_at FROM " + table_ + " WHERE seq >= ?1 ORDER BY seq LIMIT 1",
                 seq);
  }
  Result<std::optional<Place>> last_before(std::int64_t seq, std::size_t skipped) override {
    return place("SELECT seq, created_at FROM " + table_ +
                     " WHERE seq < ?1 ORDER BY seq DESC LIMIT 1 OFFSET ?2",
                 seq, static_cast<std::int64_t>(skipped));
  }
  Result<std::vector<EventRow>> find(const EventSearch& search, std::int64_t before,
                                     std::int64_t last) override;

 private:
  Result<std::optional<Place>> place(const std::string& sql, std::int64_t first,
                                     std::optional<std::int64_t> second = {}) {
    Result<Statement> select = database_.prepare(sql);
    if (!select) return fail(select.error());
    select->bind(1, first);
    if (second) select->bind(2, *second);
    const Result<bool> row = select->step();
    if (!row) return fail(row.error());
    if (!*row) return std::optional<Place>();
    return std::optional<Place>({select->integer(0), from_stored(select->integer(1))});
  }

  Database& database_;
  const std::string table_;
};

Result<std::vector<EventRow>> Box::find(const EventSearch& search, std::int64_t before,
                                        std::int64_t last) {
  Result<Statement> select = database_.prepare(
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
  Box box(*database, search.source);
  return search_box(box, search);
}

}  // namespace dovetail::sqlite

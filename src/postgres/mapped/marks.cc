// The statements that mark rows of a mapped table.
//
// A row carries the state of its event. A row that was never parked is pending or sent. For a
// parked event, dovetail.parked has the state, and `row_state` has the state that its row carries:
// if the two differ, the row must be marked. One transaction writes both.
#include <algorithm>
#include <string>
#include <vector>

#include "postgres/lane/rate_samples.h"
#include "postgres/lane/reader.h"
#include "postgres/mapped/writer.h"

namespace dovetail::postgres {

namespace {

constexpr std::string_view kAnswer = " SELECT EXISTS (SELECT 1 FROM fence)";
constexpr std::string_view kFenceHeld = " AND EXISTS (SELECT 1 FROM fence)";

// Every write begins with a fence: it finds no row if the lane has another owner, and then nothing
// is written. Rows are identified by ids that the server may give again after a crash, like
// transaction numbers.
std::string fenced(const LaneShare& share) {
  return "relay = $1 AND lane = $2 AND ($3 = -1 OR epoch = $3) AND " + kServerRun + " = " +
         quoted_text(share.run);
}

// How a row becomes pending again: if parking changed a column of the condition, that column gets
// the first value that counts as pending.
std::vector<Assignment> pending_again(const TableMapping& mapping) {
  std::vector<Assignment> result;
  for (const PendingCondition& condition : mapping.pending) {
    const auto same = [&](const Assignment& each) { return each.column == condition.column; };
    if (std::none_of(mapping.when_parked.begin(), mapping.when_parked.end(), same)) continue;
    if (condition.values.empty()) {
      result.push_back({condition.column, Assignment::Value::null});
    } else {
      result.push_back({condition.column, Assignment::Value::text, condition.values.front()});
    }
  }
  return result;
}

// Marks the rows of parked events `p` with this state.
class ParkedMarks {
 public:
  ParkedMarks(const CatalogTable& table, const TableMapping& mapping)
      : table_(table), mapping_(mapping), writer_(table, mapping) {}

  std::string all() const {
    if (mapping_.delete_when_done) return done("p.state <> 'waiting'");
    const std::string parked = writer_.carries(mapping_.when_parked);
    std::string result =
        update("delivered", sent(parked), writer_.differs(mapping_.when_delivered));
    if (!mapping_.when_parked.empty())
      result += update("parked", writer_.assignments(mapping_.when_parked),
                       writer_.differs(mapping_.when_parked));
    const std::vector<Assignment> again = pending_again(mapping_);
    const std::string pending = "(" + pending_sql(table_, mapping_) + ")";
    if (!again.empty())
      result += update("waiting", writer_.assignments(again), parked + " AND NOT " + pending);
    const std::vector<Assignment>& given_up =
        mapping_.when_discarded.empty() ? mapping_.when_delivered : mapping_.when_discarded;
    return result +
           update("discarded", writer_.assignments(given_up),
                  "(" + pending + " OR " + (mapping_.when_parked.empty() ? "false" : parked) +
                      ") AND " + writer_.differs(given_up));
  }

 private:
  std::string update(const std::string& state, const std::string& set,
                     const std::string& which) const {
    return ", mark_" + state + " AS (UPDATE " + table_.quoted + " AS t SET " + set +
           " FROM p WHERE p.state = '" + state + "' AND " + writer_.is_row_of_parked() + " AND " +
           which + ")";
  }
  std::string done(const std::string& which) const {
    return ", mark_done AS (DELETE FROM " + table_.quoted + " AS t USING p WHERE " + which +
           " AND " + writer_.is_row_of_parked() + ")";
  }
  // Takes back columns that only parking sets.
  std::string sent(const std::string& parked) const {
    std::string result = writer_.assignments(mapping_.when_delivered);
    for (const Assignment& each : pending_again(mapping_)) {
      const auto same = [&](const Assignment& other) { return other.column == each.column; };
      if (std::any_of(mapping_.when_delivered.begin(), mapping_.when_delivered.end(), same))
        continue;
      const std::string name = mapped_name(table_.column(each.column).name);
      const std::string set = writer_.assignments({each});
      result += ", " + name + " = CASE WHEN " + parked + " THEN " +
                set.substr(set.find(" = ") + 3) + " ELSE t." + name + " END";
    }
    return result;
  }

  const CatalogTable& table_;
  const TableMapping& mapping_;
  const MappedWriter writer_;
};

std::string settle_sql(const CatalogTable& table, const TableMapping& mapping,
                       const LaneShare& share) {
  const MappedWriter writer(table, mapping);
  const auto changed = [&](const std::vector<Assignment>& marks) {
    return mapping.delete_when_done
               ? "DELETE FROM " + table.quoted + " AS t"
               : "UPDATE " + table.quoted + " AS t SET " + writer.assignments(marks);
  };
  const bool has_times = mark_column(table, mapping) != nullptr;
  std::string result =
      "WITH fence AS (UPDATE dovetail.relay_lane SET delivered_total = delivered_total + $4, "
      "parked_total = parked_total + $5, " +
      kSampled + "WHERE " + fenced(share) + " RETURNING 1), sent AS (" +
      changed(mapping.when_delivered) + " WHERE " + writer.is_one_of(6) + std::string(kFenceHeld) +
      (has_times ? " RETURNING 1)" : ")");
  // Rows of events in dovetail.parked are marked already.
  if (mapping.delete_when_done || !mapping.when_parked.empty())
    result += ", parked AS (" + changed(mapping.when_parked) +
              (mapping.delete_when_done ? " USING" : " FROM") +
              " (SELECT '' AS reason, 0 AS attempts) AS p WHERE " + writer.is_one_of(7) +
              " AND NOT EXISTS (SELECT 1 FROM dovetail.parked AS q WHERE q.relay = $1 AND q.id = " +
              event_id_sql(table, mapping) + ")" + std::string(kFenceHeld) + ")";
  if (!has_times) return result + std::string(kAnswer);
  // The clock is read after the last row was marked.
  return result + std::string(kAnswer) +
         ", pg_catalog.statement_timestamp(), greatest(pg_catalog.statement_timestamp(), "
         "pg_catalog.clock_timestamp()) FROM (SELECT count(*) FROM sent) AS done";
}

std::string mark_sql(const CatalogTable& table, const TableMapping& mapping,
                     const LaneShare& share) {
  // Nothing is counted here, so the lane's row is locked but not written.
  return "WITH fence AS (SELECT 1 FROM dovetail.relay_lane WHERE " + fenced(share) +
         " FOR NO KEY UPDATE), p AS (SELECT p.id, p.row_id, p.state, p.reason, p.attempts FROM "
         "dovetail.parked AS p WHERE p.relay = $1 AND p.id = ANY ($4::pg_catalog.uuid[])" +
         std::string(kFenceHeld) + ")" + ParkedMarks(table, mapping).all() +
         ", noted AS (UPDATE dovetail.parked AS d SET row_state = p.state FROM p WHERE d.relay = "
         "$1 "
         "AND d.id = p.id AND d.row_state IS DISTINCT FROM p.state)" +
         std::string(kAnswer);
}

// Events that a version before `row_state` and `row_id` parked may stay for months. Only the
// mapping knows where their rows are, so no migration can fill these columns.
std::string adopt_sql(const CatalogTable& table, const TableMapping& mapping) {
  const std::string which =
      "q.relay = $1 AND q.row_state IS NULL AND q.state IN ('parked', 'waiting', 'discarded')";
  if (is_known_by_event(table, mapping))
    return "UPDATE dovetail.parked AS q SET row_state = '' WHERE " + which;
  return "UPDATE dovetail.parked AS p SET row_state = '', row_id = f.row_key FROM (SELECT "
         "q.number, "
         "pg_catalog.min(" +
         MappedWriter(table, mapping).row_key() +
         ") AS row_key FROM dovetail.parked AS q LEFT JOIN " + table.quoted + " AS t ON " +
         event_id_sql(table, mapping) + " = q.id WHERE " + which +
         " GROUP BY q.number) AS f WHERE p.number = f.number";
}

}  // namespace

MappedStatements mapped_statements(const CatalogTable& table, const TableMapping& mapping,
                                   const LaneShare& share) {
  MappedStatements statements;
  statements.read = mapped_read_sql(table, mapping, share);
  statements.settle = settle_sql(table, mapping, share);
  statements.mark = mark_sql(table, mapping, share);
  statements.adopt = adopt_sql(table, mapping);
  return statements;
}

}  // namespace dovetail::postgres

#include "sqlite/operate/event_rows.h"

#include "sqlite/lane/reader.h"

namespace dovetail::sqlite {

std::string select_events(SourceKind source) {
  return "SELECT o.seq, o.id, coalesce(r.relay, ''), CASE WHEN p.state IS NOT NULL THEN p.state "
         "WHEN r.relay IS NULL OR o.seq > r.passed_seq THEN 'pending' WHEN EXISTS (SELECT 1 FROM "
         "dovetail_relay_skip AS k WHERE k.relay = r.relay AND o.seq > k.from_seq AND o.seq <= "
         "k.to_seq) THEN 'skipped' WHEN r.filter = '' THEN 'delivered' ELSE coalesce((SELECT "
         "v.state FROM dovetail_events AS v WHERE ?1 = 'outbox' AND v.seq = o.seq AND v.relay = "
         "r.relay), 'delivered') END AS derived, o.topic, "
         "o.aggregate_type, o.aggregate_id, o.type, o.content_type, o.headers, "
         "length(CAST(o.payload AS BLOB)), o.aggregate_version, o.created_at FROM " +
         std::string(table_of(source)) +
         " AS o LEFT JOIN dovetail_relay AS r ON r.source = ?1 AND (?2 = '' OR r.relay = ?2) AND "
         "(r.topics = '' OR instr(r.topics, char(10) || o.topic || char(10))) "
         "LEFT JOIN dovetail_parked AS p ON p.relay = r.relay AND p.id = o.id";
}

Result<std::vector<EventRow>> read_rows(Statement& select, std::size_t limit) {
  std::vector<EventRow> rows;
  while (true) {
    const Result<bool> row = select.step();
    if (!row) return fail(row.error());
    if (!*row) return rows;
    if (rows.size() >= limit && select.integer(0) != rows.back().position) return rows;
    EventRow& event = rows.emplace_back();
    event.position = select.integer(0);
    event.id = select.id(1);
    event.relay = std::string(select.bytes(2));
    event.state = parse_event_state(select.bytes(3)).value_or(EventState::pending);
    event.topic = std::string(select.bytes(4));
    event.aggregate_type = std::string(select.bytes(5));
    event.aggregate_id = std::string(select.bytes(6));
    event.type = std::string(select.bytes(7));
    event.content_type = std::string(select.bytes(8));
    event.headers = std::string(select.bytes(9));
    event.payload_bytes = static_cast<std::uint64_t>(select.integer(10));
    event.aggregate_version = select.integer(11);
    event.created_at = from_stored(select.integer(12));
  }
}

}  // namespace dovetail::sqlite

#include "sql/operate/parked_actions.h"

#include <algorithm>
#include <optional>

namespace dovetail {

namespace {

constexpr std::string_view kParkedNeedsReason =
    "a discard needs a reason, which is recorded; say why you give up the event";
constexpr std::string_view kEditNeedsReason =
    "a changed copy needs a reason, which is recorded; say why the event is changed";

ParkedRow row_in(const SqlRows& rows, std::size_t i) {
  ParkedRow parked;
  parked.number = rows.integer(i, 0);
  parked.relay = rows.bytes(i, 1);
  parked.id = rows.id(i, 2);
  parked.position = rows.integer(i, 3);
  parked.state = parse_event_state(rows.bytes(i, 4)).value_or(EventState::parked);
  parked.head = rows.boolean(i, 5);
  parked.attempts = static_cast<std::uint32_t>(rows.integer(i, 6));
  parked.reason = rows.bytes(i, 7);
  parked.note = rows.bytes(i, 8);
  parked.topic = rows.bytes(i, 9);
  parked.aggregate_type = rows.bytes(i, 10);
  parked.aggregate_id = rows.bytes(i, 11);
  parked.type = rows.bytes(i, 12);
  parked.payload_bytes = static_cast<std::uint64_t>(rows.integer(i, 13));
  parked.parked_at = rows.time(i, 14);
  parked.retry_at = rows.time(i, 15);
  parked.finished_at = rows.time(i, 16);
  return parked;
}

// Between our look and the decision a relay, a worker or another operator was there.
Error changed_meanwhile(const EventId& id) {
  return Error{Errc::rejected, "the event " + id.to_string() +
                                   " was changed at the same moment; list it again with "
                                   "`dovetail parked`, and decide again"};
}

}  // namespace

struct ParkedActions::Parked {
  std::string relay;
  std::string state;
  bool is_head = false;
  bool is_finished = false;
  std::string aggregate_type;
  std::string aggregate_id;
};

Result<std::vector<ParkedRow>> ParkedActions::list(const ParkedFilter& filter) {
  std::string sql = sql_.list;
  SqlParams params;
  params.text(filter.relay)
      .text(filter.key)
      .text(filter.aggregate_type)
      .text(filter.type)
      .text(filter.reason_contains)
      .integer(filter.after)
      .integer(static_cast<std::int64_t>(filter.limit));
  if (!filter.id.empty()) {
    const Result<EventId> id = EventId::parse(filter.id);
    if (!id) return fail(id.error());
    params.id(*id);
    sql += sql_.list_of_event;
  }
  if (!filter.with_finished) sql += sql_.list_unfinished;
  if (filter.heads_only) sql += sql_.list_heads;
  const Result<SqlRows> rows = session_.run(sql + sql_.list_end, params);
  if (!rows) return fail(rows.error());
  std::vector<ParkedRow> found;
  for (std::size_t i = 0; i < rows->size(); ++i) found.push_back(row_in(*rows, i));
  return found;
}

Result<std::vector<ParkedActions::Parked>> ParkedActions::find(std::string_view relay,
                                                               const EventId& id) {
  const Result<SqlRows> rows = session_.run(sql_.find, SqlParams().id(id).text(relay));
  if (!rows) return fail(rows.error());
  std::vector<Parked> found;
  for (std::size_t i = 0; i < rows->size(); ++i)
    found.push_back(Parked{rows->bytes(i, 0), rows->bytes(i, 1), rows->boolean(i, 2),
                           rows->boolean(i, 3), rows->bytes(i, 4), rows->bytes(i, 5)});
  return found;
}

Result<std::vector<ParkedActions::Parked>> ParkedActions::find_unfinished(std::string_view relay,
                                                                          const EventId& id) {
  Result<std::vector<Parked>> found = find(relay, id);
  if (!found) return found;
  if (found->empty()) {
    const std::string whose =
        relay.empty() ? std::string() : " for relay \"" + std::string(relay) + "\"";
    return fail(Errc::rejected, "the event " + id.to_string() + " is not parked" + whose +
                                    "; check the id with `dovetail parked`");
  }
  if (found->front().is_finished)
    return fail(Errc::rejected, "the event " + id.to_string() + " is already finished: it was " +
                                    found->front().state + "; nothing is left to do");
  std::erase_if(*found, [](const Parked& row) { return row.is_finished; });
  return found;
}

// Only a head can be decided about. The text names the event that comes first.
Status ParkedActions::check_head(const EventId& id, const Parked& row) {
  if (row.is_head) return {};
  const Result<SqlRows> first = session_.run(
      sql_.head_of, SqlParams().text(row.relay).text(row.aggregate_type).text(row.aggregate_id));
  const std::string head =
      first && !first->empty() ? first->id(0, 0).to_string() : std::string("another event");
  return fail(Errc::rejected,
              "the event " + id.to_string() + " waits behind " + head + " of the key " +
                  row.aggregate_type + "/" + row.aggregate_id +
                  "; replay or discard that one first, then this one follows automatically");
}

Result<std::uint64_t> ParkedActions::replay(std::string_view relay, const EventId& id,
                                            std::string_view reason) {
  DOVETAIL_TRY(check_length(reason));
  Result<SqlTransaction> transaction = SqlTransaction::begin(session_, "replaying");
  if (!transaction) return fail(transaction.error());
  const Result<std::vector<Parked>> rows = find_unfinished(relay, id);
  if (!rows) return fail(rows.error());
  for (const Parked& row : *rows) DOVETAIL_TRY(check_head(id, row));
  const Result<SqlRows> done =
      session_.run(sql_.replay, SqlParams().text(relay).id(id).text(reason));
  if (!done) return fail(done.error());
  const std::uint64_t count = count_in(*done);
  if (count == 0) return fail(changed_meanwhile(id));
  DOVETAIL_TRY(add_audit(session_, sql_.audit,
                         {.what = "replay",
                          .relay = std::string(relay),
                          .subject = id.to_string(),
                          .events = count,
                          .reason = std::string(reason)}));
  DOVETAIL_TRY(transaction->commit());
  return count;
}

Status ParkedActions::discard(std::string_view relay, const EventId& id, std::string_view reason) {
  DOVETAIL_TRY(check_reason(reason, kParkedNeedsReason));
  Result<SqlTransaction> transaction = SqlTransaction::begin(session_, "discarding");
  if (!transaction) return fail(transaction.error());
  const Result<std::vector<Parked>> rows = find_unfinished(relay, id);
  if (!rows) return fail(rows.error());
  if (rows->size() > 1)
    return fail(Errc::rejected, "several relays parked the event " + id.to_string() +
                                    "; name the relay that should give it up");
  DOVETAIL_TRY(discard(id, rows->front(), reason));
  return transaction->commit();
}

Status ParkedActions::discard(const EventId& id, const Parked& row, std::string_view reason) {
  DOVETAIL_TRY(check_head(id, row));
  const Result<SqlRows> done =
      session_.run(sql_.discard, SqlParams().text(row.relay).id(id).text(reason));
  if (!done) return fail(done.error());
  if (count_in(*done) == 0) return fail(changed_meanwhile(id));
  DOVETAIL_TRY(
      refresh_heads(session_, sql_.heads, row.relay, {{row.aggregate_type, row.aggregate_id}}));
  return add_audit(session_, sql_.audit,
                   {.what = "discard",
                    .relay = row.relay,
                    .subject = id.to_string(),
                    .events = 1,
                    .reason = std::string(reason)});
}

Result<std::uint64_t> ParkedActions::replace(const EventId& id, const EventId& copy,
                                             std::string_view reason,
                                             const std::function<Status()>& publish) {
  const std::string why = std::string(reason) + "; as " + copy.to_string();
  DOVETAIL_TRY(check_reason(reason, kEditNeedsReason));
  DOVETAIL_TRY(check_length(why));
  Result<SqlTransaction> transaction = SqlTransaction::begin(session_, "publishing a changed copy");
  if (!transaction) return fail(transaction.error());
  DOVETAIL_TRY(publish());
  const std::string replaced = id.to_string();
  const std::string by = copy.to_string();
  const Result<SqlRows> noted =
      session_.run(sql_.note_edit, SqlParams().text(replaced).text(by).text(reason));
  if (!noted) return fail(noted.error());
  const Result<std::vector<Parked>> rows = find({}, id);
  if (!rows) return fail(rows.error());
  std::uint64_t discarded = 0;
  for (const Parked& row : *rows) {
    if (row.is_finished) continue;
    DOVETAIL_TRY(discard(id, row, why));
    ++discarded;
  }
  DOVETAIL_TRY(transaction->commit());
  return discarded;
}

}  // namespace dovetail

#include "sql/parking.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "core/check.h"
#include "core/event/utf8.h"
#include "core/operations.h"

namespace dovetail {

namespace {

constexpr std::size_t kReasonBytesMax = 2000;

// What is kept under an id, as seen by a request with that id.
struct Present {
  EventState state = EventState::parked;
  std::int64_t position = 0;
  bool is_other = false;  // the request has another event
  bool is_anew = false;   // discarded, and published anew since
  bool is_finished() const {
    return state == EventState::delivered || state == EventState::discarded;
  }
};

std::optional<Present> present_in(const SqlRows& rows) {
  if (rows.empty()) return std::nullopt;
  const Result<EventState> state = parse_event_state(rows.bytes(0, 0));
  DOVETAIL_CHECK(state);
  return Present{*state, rows.integer(0, 1), rows.boolean(0, 2), rows.boolean(0, 3)};
}

EventState state_of(const ParkRequest& request) {
  return request.state == ParkState::parked ? EventState::parked : EventState::waiting;
}

enum class Verdict : std::uint8_t { keep, replace, other };

Verdict judge(const Present& present, const ParkRequest& request) {
  // A delivered event that comes again was published once more, perhaps with another content.
  if (present.state == EventState::delivered || present.is_anew) return Verdict::replace;
  if (present.is_other) return Verdict::other;
  if (present.state == EventState::discarded) return Verdict::keep;
  // A later copy of the same event.
  if (present.position < request.event->position) return Verdict::keep;
  const bool waits_for_operator = present.state == EventState::parked;
  return waits_for_operator && request.state == ParkState::waiting ? Verdict::keep
                                                                   : Verdict::replace;
}

SqlParams written(const SqlLane& lane, const ParkRequest& request, std::string_view reason,
                  bool was_finished) {
  const Event& event = *request.event;
  SqlParams params;
  params.text(lane.relay)
      .id(event.id)
      .integer(event.position)
      .text(event.topic)
      .text(event.aggregate_type)
      .text(event.aggregate_id)
      .text(event.type)
      .text(event.content_type)
      .text(event.headers)
      .bytes(event.payload)
      .integer(event.aggregate_version)
      .time(event.created_at)
      .text(to_string(state_of(request)))
      .integer(request.attempts)
      .text(reason)
      .microseconds(request.delay)
      .boolean(was_finished);
  return params;
}

Event event_in(const SqlRows& rows) {
  Event event;
  event.position = rows.integer(0, 0);
  event.id = rows.id(0, 1);
  event.topic = rows.bytes(0, 2);
  event.aggregate_type = rows.bytes(0, 3);
  event.aggregate_id = rows.bytes(0, 4);
  event.type = rows.bytes(0, 5);
  event.content_type = rows.bytes(0, 6);
  event.headers = rows.bytes(0, 7);
  event.payload = rows.bytes(0, 8);
  event.aggregate_version = rows.integer(0, 9);
  event.created_at = rows.time(0, 10);
  return event;
}

}  // namespace

// What still fits into a batch. The first event always fits.
class SqlParking::Room {
 public:
  Room(const Batch& out, const Limits& limits)
      : events_(limits.events_max - std::min(limits.events_max, out.size())),
        bytes_(limits.bytes_max - std::min(limits.bytes_max, out.bytes())),
        is_empty_(out.empty()) {}
  std::size_t events() const { return events_; }
  bool take(std::int64_t payload_bytes) {
    const auto bytes = static_cast<std::size_t>(payload_bytes);
    if (events_ == 0 || (bytes > bytes_ && !is_empty_)) return false;
    --events_;
    bytes_ -= std::min(bytes, bytes_);
    is_empty_ = false;
    return true;
  }

 private:
  std::size_t events_;
  std::size_t bytes_;
  bool is_empty_;
};

// The row of one id.
struct SqlParking::Row {
  std::optional<Present> before{};
  const ParkRequest* last = nullptr;     // the last request with this event
  const ParkRequest* written = nullptr;  // null: the row stays as it is
};

SqlParking::SqlParking(std::unique_ptr<SqlSession> session, const LaneStatements& lanes,
                       const ParkingStatements& sql, SqlLane lane)
    : session_(std::move(session)), lanes_(lanes), sql_(sql), lane_(lane) {}

SqlParams SqlParking::lane_params() const { return lane_.params().integer(lane_.lanes); }

Status SqlParking::blocked_keys(std::vector<OrderKey>& out, std::size_t keys_max) {
  const Result<SqlRows> rows =
      session_->run(sql_.blocked_keys, lane_params().integer(static_cast<std::int64_t>(keys_max)));
  if (!rows) return fail(rows.error());
  for (std::size_t row = 0; row < rows->size(); ++row)
    out.emplace_back(rows->bytes(row, 0), rows->bytes(row, 1));
  return {};
}

Status SqlParking::blocked_among(std::span<const OrderKey> keys, std::vector<OrderKey>& out) {
  if (keys.empty()) return {};
  std::vector<SqlParams> each;
  each.reserve(keys.size());
  for (const OrderKey& key : keys)
    each.push_back(SqlParams().text(lane_.relay).text(key.first).text(key.second));
  const Result<std::vector<SqlRows>> found = session_->run_each(sql_.is_blocked, each);
  if (!found) return fail(found.error());
  for (std::size_t i = 0; i < keys.size(); ++i)
    if (!(*found)[i].empty()) out.push_back(keys[i]);
  return {};
}

Status SqlParking::park(std::span<const ParkRequest> requests) {
  if (requests.empty()) return {};
  Result<SqlTransaction> transaction = SqlTransaction::begin(*session_, "parking events");
  if (!transaction) return fail(transaction.error());
  DOVETAIL_TRY(check_epoch(*session_, lanes_, lane_));
  std::vector<const ParkRequest*> all;
  for (const ParkRequest& request : requests) all.push_back(&request);
  std::vector<const ParkRequest*> others;
  std::vector<Kept> kept;
  DOVETAIL_TRY(write(all, others, kept));
  std::deque<SecondEvent> seconds;
  std::vector<const ParkRequest*> renamed;
  for (const ParkRequest* request : others) {
    renamed.push_back(&seconds.emplace_back(*request).request());
    kept.push_back({renamed.back()->event->id, request->event});
  }
  std::vector<const ParkRequest*> none;
  std::vector<Kept> known;
  if (!renamed.empty()) DOVETAIL_TRY(write(renamed, none, known));
  std::set<OrderKey> keys;
  for (const Kept& one : kept) keys.emplace(one.event->aggregate_type, one.event->aggregate_id);
  DOVETAIL_TRY(refresh_heads(*session_, sql_.heads, lane_.relay, keys));
  DOVETAIL_TRY(changed(kept));
  return transaction->commit();
}

Result<std::vector<SqlRows>> SqlParking::find(std::span<const ParkRequest* const> requests) {
  std::vector<SqlParams> each;
  each.reserve(requests.size());
  for (const ParkRequest* request : requests) {
    const Event& event = *request->event;
    each.push_back(SqlParams()
                       .text(lane_.relay)
                       .id(event.id)
                       .bytes(event.payload)
                       .text(event.type)
                       .text(event.aggregate_type)
                       .text(event.aggregate_id));
  }
  return session_->run_each(sql_.find, each);
}

Status SqlParking::write(std::span<const ParkRequest* const> requests,
                         std::vector<const ParkRequest*>& others, std::vector<Kept>& kept) {
  const Result<std::vector<SqlRows>> found = find(requests);
  if (!found) return fail(found.error());
  std::vector<Row> rows;
  rows.reserve(requests.size());
  std::map<EventId, std::size_t> places;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const ParkRequest& request = *requests[i];
    const std::optional<Present> before = present_in((*found)[i]);
    const auto [place, is_new] = places.try_emplace(request.event->id, rows.size());
    if (is_new) rows.push_back(Row{before});
    Row& row = rows[place->second];
    std::optional<Present> present = before;
    if (row.written != nullptr)
      present = Present{state_of(*row.written), row.written->event->position,
                        !is_same_event(*row.written->event, *request.event)};
    const Verdict verdict = present ? judge(*present, request) : Verdict::replace;
    if (verdict == Verdict::other) {
      others.push_back(&request);
      continue;
    }
    row.last = &request;
    if (verdict == Verdict::replace) row.written = &request;
  }
  for (const Row& row : rows) {
    if (row.last == nullptr) continue;
    const ParkRequest& request = row.written != nullptr ? *row.written : *row.last;
    kept.push_back({request.event->id, request.event});
  }
  return write_rows(rows);
}

Status SqlParking::write_rows(std::span<const Row> rows) {
  std::deque<std::string> reasons;
  std::vector<SqlParams> added;
  std::vector<SqlParams> changed;
  for (const Row& row : rows) {
    if (row.written == nullptr) continue;
    const std::string& reason =
        reasons.emplace_back(stored_text(row.written->reason, kReasonBytesMax));
    const bool was_finished = row.before && row.before->is_finished();
    (row.before ? changed : added).push_back(written(lane_, *row.written, reason, was_finished));
  }
  if (!added.empty()) {
    const Result<std::vector<SqlRows>> done = session_->run_each(sql_.add, added);
    if (!done) return fail(done.error());
    for (const SqlRows& one : *done)
      if (one.affected() == 0)
        return fail(Errc::unavailable, "an event of " + shown_lane(lane_) +
                                           " was parked by an operator at the same moment; the "
                                           "relay parks its events again");
  }
  if (changed.empty()) return {};
  const Result<std::vector<SqlRows>> done = session_->run_each(sql_.change, changed);
  if (!done) return fail(done.error());
  return {};
}

// The numbers of due events that fit into `room`, in the order in which they go out.
Result<std::vector<SqlParams>> SqlParking::read_due(Room room, Duration pause_max) {
  const auto events = static_cast<std::int64_t>(room.events());
  const Result<SqlRows> heads =
      session_->run(sql_.due_heads, lane_params().integer(events).microseconds(pause_max));
  if (!heads) return fail(heads.error());
  // Lines share the room, so that what is read is bounded.
  const std::size_t used = std::min(heads->size(), room.events());
  const std::size_t share = used == 0 ? 0 : (room.events() + used - 1) / used;
  std::vector<SqlParams> keys;
  for (std::size_t row = 0; row < used; ++row)
    if (!heads->bytes(row, 2).empty())
      keys.push_back(SqlParams()
                         .text(lane_.relay)
                         .text(heads->bytes(row, 1))
                         .text(heads->bytes(row, 2))
                         .integer(static_cast<std::int64_t>(share))
                         .microseconds(pause_max));
  Result<std::vector<SqlRows>> lines = std::vector<SqlRows>{};
  if (!keys.empty()) lines = session_->run_each(sql_.line, keys);
  if (!lines) return fail(lines.error());
  std::vector<SqlParams> numbers;
  auto line = lines->begin();
  for (std::size_t row = 0; row < used; ++row) {
    if (heads->bytes(row, 2).empty()) {
      if (!room.take(heads->integer(row, 3))) return numbers;
      numbers.push_back(SqlParams().integer(heads->integer(row, 0)));
      continue;
    }
    const SqlRows& behind = *line++;
    for (std::size_t i = 0; i < behind.size() && behind.boolean(i, 1); ++i) {
      if (!room.take(behind.integer(i, 2))) return numbers;
      numbers.push_back(SqlParams().integer(behind.integer(i, 0)));
    }
  }
  return numbers;
}

Status SqlParking::take_due(Batch& out, std::vector<std::uint32_t>& attempts,
                            const Limits& limits) {
  const Result<std::vector<SqlParams>> numbers = read_due(Room(out, limits), limits.pause_max);
  if (!numbers) return fail(numbers.error());
  if (numbers->empty()) return {};
  const Result<std::vector<SqlRows>> events = session_->run_each(sql_.event, *numbers);
  if (!events) return fail(events.error());
  for (const SqlRows& row : *events) {
    if (row.empty()) continue;  // an operator discarded it just now
    out.append(event_in(row)).replays = static_cast<std::uint32_t>(row.integer(0, 12));
    attempts.push_back(static_cast<std::uint32_t>(row.integer(0, 11)));
  }
  return {};
}

Status SqlParking::delivered(std::span<const EventId> ids) {
  if (ids.empty()) return {};
  Result<SqlTransaction> transaction = SqlTransaction::begin(*session_, "finishing parked events");
  if (!transaction) return fail(transaction.error());
  DOVETAIL_TRY(check_epoch(*session_, lanes_, lane_));
  std::vector<SqlParams> each;
  std::vector<Kept> kept;
  for (const EventId& id : ids) {
    each.push_back(SqlParams().text(lane_.relay).id(id));
    kept.push_back({id});
  }
  const Result<std::vector<SqlRows>> found = session_->run_each(sql_.unfinished, each);
  if (!found) return fail(found.error());
  std::set<OrderKey> keys;
  for (const SqlRows& row : *found)
    if (!row.empty()) keys.emplace(row.bytes(0, 0), row.bytes(0, 1));
  const Result<std::vector<SqlRows>> done = session_->run_each(sql_.finish, each);
  if (!done) return fail(done.error());
  std::int64_t finished = 0;
  for (const SqlRows& row : *done) finished += row.affected();
  DOVETAIL_TRY(refresh_heads(*session_, sql_.heads, lane_.relay, keys));
  if (finished > 0) {
    const Result<SqlRows> counted =
        session_->run(sql_.count_replayed, lane_.params().integer(finished));
    if (!counted) return fail(counted.error());
  }
  DOVETAIL_TRY(changed(kept));
  return transaction->commit();
}

}  // namespace dovetail

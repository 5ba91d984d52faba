#include "sql/lane.h"

namespace dovetail {

LeaseHolder holder_in(const SqlRows& rows, std::size_t row) {
  LeaseHolder holder;
  holder.owner = rows.bytes(row, 0);
  holder.epoch = rows.integer(row, 1);
  holder.has_run_out = rows.boolean(row, 2);
  holder.term = rows.microseconds(row, 3);
  holder.left = rows.microseconds(row, 4);
  holder.sign = rows.bytes(row, 5);
  holder.target = rows.bytes(row, 6);
  holder.hold = parse_hold(rows.bytes(row, 7));
  holder.hold_by = rows.bytes(row, 8);
  holder.hold_reason = rows.bytes(row, 9);
  return holder;
}

Result<std::optional<LeaseHolder>> read_holder(SqlSession& session, const LaneStatements& sql,
                                               const SqlLane& lane) {
  const Result<SqlRows> rows = session.run(sql.holder, lane.params());
  if (!rows) return fail(rows.error());
  if (rows->empty()) return std::nullopt;
  return holder_in(*rows, 0);
}

std::string_view process_of(std::string_view owner) { return owner.substr(0, owner.find('#')); }

Error held_by_operator(const SqlLane& lane, const LeaseHolder& holder) {
  std::string text = "relay \"" + lane.relay + "\" was " + std::string(to_string(holder.hold)) +
                     " by " + holder.hold_by;
  if (!holder.hold_reason.empty()) text += " (" + holder.hold_reason + ")";
  return Error{Errc::unavailable, text + "; `dovetail relay resume` lets it continue"};
}

std::string shown_lane(const SqlLane& lane) {
  const std::string relay = "relay \"" + lane.relay + "\"";
  return lane.lanes == 1 ? relay : "lane " + std::to_string(lane.lane) + " of " + relay;
}

Status check_epoch(SqlSession& session, const LaneStatements& sql, const SqlLane& lane) {
  if (lane.epoch == kUnfenced) return {};
  const Result<SqlRows> rows = session.run(sql.epoch, lane.params());
  if (!rows) return fail(rows.error());
  if (rows->empty() || rows->integer(0, 0) != lane.epoch) return fail(taken_over(lane));
  return {};
}

Error taken_over(const SqlLane& lane) {
  return Error{Errc::stopped, "another process has taken over " + shown_lane(lane) +
                                  "; check for pauses of this process longer than the lease"};
}

}  // namespace dovetail

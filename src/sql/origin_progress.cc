#include "sql/origin_progress.h"

namespace dovetail {

Status OriginProgress::open() {
  settled_ = parked_ = skipped_ = 0;
  return session_->connect();
}

Result<std::int64_t> OriginProgress::last_parked() {
  const Result<SqlRows> rows = session_->run(sql_.last_parked, SqlParams().text(lane_.relay));
  if (!rows) return fail(rows.error());
  return rows->integer(0, 0);
}

void OriginProgress::add(std::uint64_t settled, std::uint64_t parked, std::uint64_t skipped) {
  settled_ += static_cast<std::int64_t>(settled);
  parked_ += static_cast<std::int64_t>(parked);
  skipped_ += static_cast<std::int64_t>(skipped);
}

Status OriginProgress::write() {
  if (settled_ == 0) return {};
  DOVETAIL_TRY(session_->connect());
  const Result<SqlRows> counted = session_->run(
      sql_.count,
      lane_.params().integer(lane_.epoch).integer(settled_).integer(parked_).integer(skipped_));
  if (!counted) return fail(counted.error());
  if (counted->affected() == 0) return fail(taken_over(lane_));
  settled_ = parked_ = skipped_ = 0;
  return {};
}

}  // namespace dovetail

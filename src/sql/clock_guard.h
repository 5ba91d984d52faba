// Whether a database's clock can be trusted before rows are deleted by age: the rules of
// core/inbox/clock_mark.h, with the marks kept in the database.
#pragma once

#include <string>

#include "core/clock.h"
#include "sql/session.h"

namespace dovetail {

struct ClockStatements {
  // Returns the database's time.
  std::string now;
  // $1 boot. Always returns one row: of this boot the wall clock and the steady clock
  // (microseconds) when the clock was trusted, and both when a doubt began (each or null); of all
  // other boots the latest trusted time, and the latest at which a doubt began (or null).
  std::string marks;
  // $1 boot, $2 the time, which is trusted. Deletes marks of other boots that are not needed any
  // more.
  std::string forget_marks;
  // $1 boot, $2 and $3 the trusted mark, $4 and $5 the doubted one, each in the order of `marks`,
  // or null. Replaces those of this boot.
  std::string mark;
};

// The database's time. unavailable: its clock was set recently, or differs from `clock`, so ages
// are unknown. Keeps what the next check needs. `place` names the database in the error.
Result<WallTime> trusted_now(SqlSession& session, const ClockStatements& sql, Clock& clock,
                             const std::string& boot, std::string_view place);

// Only compares the two clocks: for callers that may not write marks.
Status check_clocks_agree(SqlSession& session, const ClockStatements& sql, Clock& clock);

}  // namespace dovetail

#include "sqlite/operate/clock_statements.h"

namespace dovetail::sqlite {

const ClockStatements& clock_statements() {
  static const ClockStatements statements = {
      .now = "SELECT :now",
      .marks =
          "SELECT m.wall, m.boot_time, m.doubted_wall, m.doubted_boot_time, (SELECT max(wall) FROM "
          "dovetail_clock_mark WHERE boot <> $1), (SELECT max(doubted_wall) FROM "
          "dovetail_clock_mark WHERE boot <> $1) FROM (SELECT 1) LEFT JOIN dovetail_clock_mark AS "
          "m ON m.boot = $1",
      .forget_marks = "DELETE FROM dovetail_clock_mark WHERE boot <> $1",
      .mark = "INSERT OR REPLACE INTO dovetail_clock_mark VALUES ($1, $2, $3, $4, $5)"};
  return statements;
}

}  // namespace dovetail::sqlite

// Texts from operators and from the catalog of a server: conditions and assignments of a mapped
// table, connection settings, positions in the WAL, bounds of partitions. What is accepted means
// the same when it is written again.
#include <algorithm>
#include <string>

#include "fuzz/fuzz.h"
#include "postgres/connection/conninfo.h"
#include "postgres/mapped/table.h"
#include "postgres/operate/partitions.h"
#include "postgres/stream/position.h"

using namespace dovetail;
using namespace dovetail::postgres;

namespace {

constexpr std::string_view kSecret = "Qz7-a-secret-of-the-fuzzer";

std::string quoted(std::string_view value) {
  std::string text = "'";
  for (const char c : value) text += c == '\'' ? std::string("''") : std::string(1, c);
  return text + "'";
}

void check_condition(std::string_view input) {
  const auto condition = parse_pending(input);
  if (!condition) {
    FUZZ_REQUIRE(condition.error().code == Errc::rejected && !condition.error().text.empty());
    return;
  }
  FUZZ_REQUIRE(is_allowed_name(condition->column));
  std::string text = condition->column + (condition->values.empty() ? " IS NULL" : " = ");
  for (const std::string& value : condition->values)
    text += (&value == condition->values.data() ? "" : " | ") + quoted(value);
  const auto again = parse_pending(text);
  FUZZ_REQUIRE(again && again->column == condition->column && again->values == condition->values);
}

void check_assignment(std::string_view input) {
  using Value = Assignment::Value;
  const auto assignment = parse_assignment(input);
  if (!assignment) {
    FUZZ_REQUIRE(assignment.error().code == Errc::rejected && !assignment.error().text.empty());
    return;
  }
  FUZZ_REQUIRE(is_allowed_name(assignment->column));
  FUZZ_REQUIRE(assignment->value == Value::text || assignment->literal.empty());
  if (assignment->value != Value::text) return;
  const auto again = parse_assignment(assignment->column + "=" + quoted(assignment->literal));
  FUZZ_REQUIRE(again && again->column == assignment->column && again->value == Value::text &&
               again->literal == assignment->literal);
}

void check_settings(std::string_view input) {
  const std::string text(input);
  const auto settings = parse_conninfo(text);
  if (!settings) {
    FUZZ_REQUIRE(settings.error().code == Errc::rejected && !settings.error().text.empty());
  } else {
    const auto again = parse_conninfo(settings->keywords);
    FUZZ_REQUIRE(again && again->keywords == settings->keywords && again->shown == settings->shown);
    // A password is refused wherever it comes from, however it is written.
    FUZZ_REQUIRE(!parse_conninfo(with_password(*settings, "x" + text)));
  }
  const auto with_secret = parse_conninfo(text + " password=" + std::string(kSecret));
  FUZZ_REQUIRE(with_secret || with_secret.error().text.find(kSecret) == std::string::npos);
}

void check_position(std::string_view input) {
  const auto position = parse_wal_position(input);
  if (!position) {
    FUZZ_REQUIRE(position.error().code == Errc::corrupt && !position.error().text.empty());
    return;
  }
  const auto again = parse_wal_position(to_string(*position));
  FUZZ_REQUIRE(again && *again == *position);
}

void check_bounds(std::string_view input) {
  const auto partition = parse_bounds("outbox_p", input);
  if (!partition) return;
  FUZZ_REQUIRE(partition->name == "outbox_p" && partition->from >= 0 && partition->to >= 0);
  FUZZ_REQUIRE(std::count(input.begin(), input.end(), '\'') >= 2);
}

}  // namespace

void check_input(std::string_view input) {
  check_condition(input);
  check_assignment(input);
  check_settings(input);
  check_position(input);
  check_bounds(input);
}

std::vector<std::string_view> seed_inputs() {
  return {"status = NEW|AGAIN",
          "sent_at IS NULL",
          "status = 'a ''b''' | c|'|'",
          "sent_at = now()",
          "tries = attempts()",
          "error = 'null'",
          "status = NEW; DROP TABLE x",
          "host=db port=5432 user='a b' dbname=shop sslmode=verify-full connect_timeout=3",
          "postgres://u@[::1]:5432,db2/shop?application_name=a%20b",
          "host=db password=x",
          "dbname='host=evil'",
          "port=1,2, target_session_attrs=any",
          "16/B374D848",
          "0/0",
          "FOR VALUES FROM ('01890a5d-ac96-0000-0000-000000000000') TO "
          "('01890a60-ac96-0000-0000-000000000000')",
          "DEFAULT"};
}

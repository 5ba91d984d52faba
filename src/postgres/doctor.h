// Looks at a database the way an experienced operator would, and says what is wrong and what to do.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/clock.h"
#include "dovetail/result.h"
#include "postgres/mapped_table.h"

namespace dovetail::postgres {

enum class Severity : std::uint8_t {
  note,     // good to know
  warning,  // will hurt some day, or under load
  error,    // events are late, unordered or not sent, or a promise does not hold
};
std::string_view to_string(Severity severity);

struct Finding {
  Severity severity = Severity::note;
  std::string code;  // stable, for scripts: "sequence-cache"
  std::string what;
  std::string what_to_do;
};

struct DoctorOptions {
  MappedRelays mapped{};
  Duration transaction_age_max = std::chrono::minutes(5);
  Duration prepared_age_max = std::chrono::minutes(10);
  Duration lag_max = std::chrono::seconds(30);
  std::uint64_t pending_max = 1000;
  Duration clock_skew_max = std::chrono::seconds(2);
  Duration ahead_min = std::chrono::hours(24);
  std::uint64_t dead_rows_max = 10'000;  // together with a fifth of the live ones
};

// Changes nothing. An error only when the database cannot be asked at all; whatever can be asked
// and is wrong is a finding. Errors come first.
Result<std::vector<Finding>> examine(const std::string& url, const DoctorOptions& options,
                                     Clock& clock);

}  // namespace dovetail::postgres

// Looks at a database the way an experienced operator would, and says what is wrong and what to do.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/operations.h"
#include "postgres/mapped_table.h"

namespace dovetail::postgres {

struct DoctorOptions {
  MappedRelays mapped{};
  Duration transaction_age_max = std::chrono::minutes(5);
  Duration prepared_age_max = std::chrono::minutes(10);
  Duration lag_max = std::chrono::seconds(30);
  std::uint64_t pending_max = 1000;
  Duration clock_skew_max = std::chrono::seconds(2);
  Duration ahead_min = std::chrono::hours(24);
  std::uint64_t dead_rows_max = 10'000;        // together with a fifth of the live ones
  std::uint64_t default_rows_max = 1'000'000;  // of the inbox
};

// Changes nothing. An error only when the database cannot be asked at all; whatever can be asked
// and is wrong is a finding. Errors come first.
Result<std::vector<Finding>> examine(const std::string& url, const DoctorOptions& options,
                                     Clock& clock);

}  // namespace dovetail::postgres

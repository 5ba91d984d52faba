// What is unsafe about a Kafka cluster and its topics for publishers and
// consumers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/operations.h"
#include "dovetail/result.h"
#include "kafka/options.h"

namespace dovetail::kafka {

struct Examined {
  Options options;
  // Topics that are written, without the prefix; '*' matches anything.
  std::vector<std::string> written{};
  bool is_read = false;               // `options.topics` are read
  std::size_t payload_bytes_max = 0;  // the largest that may be published; 0: unknown
  // How long consumers remember applied events; empty: without limit.
  std::optional<Duration> inbox_retention{};
};

// Only reads. unavailable: no broker answers.
Result<std::vector<Finding>> examine(const Examined& what);

// How long each of `options.topics` keeps events; missing topics are left out. rejected: this user
// may not ask.
Result<std::vector<Kept>> retention(const Options& options);

// Whether `name` matches `pattern`.
bool matches(std::string_view pattern, std::string_view name);

}  // namespace dovetail::kafka

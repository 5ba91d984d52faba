// What is unsafe about a Kafka cluster and its topics, for those who publish to them and those who
// read from them.
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
  // Names of the topics that are written, without prefix; '*' stands for anything.
  std::vector<std::string> written{};
  bool is_read = false;               // `options.topics` are
  std::size_t payload_bytes_max = 0;  // that may be published; 0: not known
  // How long consumers remember what they have applied; none: for ever.
  std::optional<Duration> inbox_retention{};
};

// Asks and changes nothing. unavailable: no broker answers.
Result<std::vector<Finding>> examine(const Examined& what);

// How long each of `options.topics` keeps events; without those that are not there. rejected: this
// user may not ask.
Result<std::vector<Kept>> retention(const Options& options);

// Whether `name` is one that `pattern` stands for.
bool matches(std::string_view pattern, std::string_view name);

}  // namespace dovetail::kafka

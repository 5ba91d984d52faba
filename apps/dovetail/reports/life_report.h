// The life of an event as text and as JSON; commands and the console show the same.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "commands/output.h"
#include "core/life/life.h"

namespace dovetail::app {

// "id", "state", "sentence", "event", "steps", "explain", "not_asked".
Json json_of(const life::Facts& facts, const life::Life& life);

// Step by step, for a terminal of that width.
std::string steps_text(const life::Facts& facts, const life::Life& life,
                       std::optional<std::size_t> width);
// Which rule, which lane, why it waits.
std::string explain_text(const life::Facts& facts, const life::Life& life,
                         std::optional<std::size_t> width);

}  // namespace dovetail::app

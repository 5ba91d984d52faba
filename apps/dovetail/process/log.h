// The log: one line on stderr for each change of state, as text or as one JSON object. Never
// payloads.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "config/config.h"

namespace dovetail::app {

struct LogField {
  std::string_view name;
  std::string_view value;
};

// Sets format and level. Call it once, before other threads log.
void log_setup(const config::LogConfig& config);

// Any thread. `subject` names what the line is about, such as a relay; it may be empty.
void log_line(config::LogLevel level, std::string_view subject, std::string_view message,
              std::initializer_list<LogField> fields = {});

// The line that log_line writes, without the newline.
std::string format_log_line(const config::LogConfig& config, WallTime time, config::LogLevel level,
                            std::string_view subject, std::string_view message,
                            std::initializer_list<LogField> fields);

}  // namespace dovetail::app

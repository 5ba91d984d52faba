#include "process/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <cstdio>
#include <memory>

#include "config/units.h"

namespace dovetail::app {

using config::iso_time;
using config::LogConfig;
using config::LogFormat;
using config::LogLevel;
namespace {

LogConfig active;  // written only by log_setup, before other threads log

spdlog::logger& logger() {
  static std::shared_ptr<spdlog::logger> instance = [] {
    auto made = std::make_shared<spdlog::logger>("dovetail",
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%v");
    made->set_level(spdlog::level::trace);
    made->flush_on(spdlog::level::trace);
    return made;
  }();
  return *instance;
}

std::string_view level_name(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return "debug";
    case LogLevel::info:
      return "info";
    case LogLevel::warn:
      return "warn";
    case LogLevel::error:
      return "error";
  }
  return "error";
}

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return spdlog::level::debug;
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::warn:
      return spdlog::level::warn;
    case LogLevel::error:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(c));
      out += escaped;
    } else {
      out += c;
    }
  }
  out += '"';
}

void append_json_field(std::string& out, std::string_view name, std::string_view value) {
  append_json_string(out, name);
  out += ':';
  append_json_string(out, value);
}

// Keeps one line, whatever an error text contains.
void append_flat(std::string& out, std::string_view text) {
  for (const char c : text) out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
}

}  // namespace

void log_setup(const LogConfig& config) { active = config; }

std::string format_log_line(const LogConfig& config, WallTime time, LogLevel level,
                            std::string_view subject, std::string_view message,
                            std::initializer_list<LogField> fields) {
  std::string line;
  if (config.format == LogFormat::json) {
    line += '{';
    append_json_field(line, "time", iso_time(time));
    line += ',';
    append_json_field(line, "level", level_name(level));
    if (!subject.empty()) {
      line += ',';
      append_json_field(line, "subject", subject);
    }
    line += ',';
    append_json_field(line, "message", message);
    for (const LogField& field : fields) {
      line += ',';
      append_json_field(line, field.name, field.value);
    }
    line += '}';
    return line;
  }
  line += iso_time(time);
  line += ' ';
  line += level_name(level);
  line.append(level_name(level).size() < 6 ? 6 - level_name(level).size() : 1, ' ');
  if (!subject.empty()) {
    append_flat(line, subject);
    line += ": ";
  }
  append_flat(line, message);
  for (const LogField& field : fields) {
    line += ' ';
    line += field.name;
    line += '=';
    append_flat(line, field.value);
  }
  return line;
}

void log_line(LogLevel level, std::string_view subject, std::string_view message,
              std::initializer_list<LogField> fields) {
  if (level < active.level) return;
  const auto now =
      std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::system_clock::now());
  const std::string line = format_log_line(active, now, level, subject, message, fields);
  logger().log(spdlog_level(level), spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace dovetail::app

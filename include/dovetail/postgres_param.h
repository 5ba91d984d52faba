// A parameter of a statement on PostgreSQL.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "dovetail/event.h"

namespace dovetail::postgres {

// Text in the format of its type, or bytes.
struct Param {
  // NOLINTBEGIN(google-explicit-constructor)
  Param(std::string_view text) : value(text) {}
  Param(const char* text) : value(text) {}
  Param(const std::string& text) : value(text) {}
  Param(std::int64_t number) : value(std::to_string(number)) {}
  Param(int number) : value(std::to_string(number)) {}
  Param(const EventId& id) : value(id.to_string()) {}
  // NOLINTEND(google-explicit-constructor)
  static Param bytes(std::string_view bytes);  // of a bytea
  static Param null();

  std::string value;
  bool is_null = false;
  bool is_bytes = false;
};

}  // namespace dovetail::postgres

#include "rabbitmq/protocol/field_text.h"

#include <amqp.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <string_view>

#include "rabbitmq/protocol/frames.h"

namespace dovetail::rabbitmq {

namespace {

constexpr int kDepthMax = 16;

void append_number(std::string& out, double value) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.17g", value);
  out += text.data();
}

void append_time(std::string& out, std::uint64_t seconds) {
  const auto time = static_cast<std::time_t>(seconds);
  std::tm parts{};
  std::array<char, 64> text{};
  if (gmtime_r(&time, &parts) == nullptr ||
      std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts) == 0)
    out += std::to_string(seconds);
  else
    out += text.data();
}

void append_decimal(std::string& out, const amqp_decimal_t& decimal) {
  std::string digits = std::to_string(decimal.value);
  if (decimal.decimals > 0) {
    if (digits.size() <= decimal.decimals)
      digits.insert(0, decimal.decimals + std::size_t{1} - digits.size(), '0');
    digits.insert(digits.size() - decimal.decimals, 1, '.');
  }
  out += digits;
}

void append_quoted(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      std::array<char, 8> escape{};
      std::snprintf(escape.data(), escape.size(), "\\u%04x", static_cast<unsigned>(c));
      out += escape.data();
    } else {
      out += c;
    }
  }
  out += '"';
}

bool is_quoted(std::uint8_t kind) {
  return kind == AMQP_FIELD_KIND_UTF8 || kind == AMQP_FIELD_KIND_BYTES ||
         kind == AMQP_FIELD_KIND_TIMESTAMP;
}

void append_value(std::string& out, const amqp_field_value_t& value, int depth);

void append_nested(std::string& out, const amqp_field_value_t& value, int depth) {
  if (value.kind == AMQP_FIELD_KIND_VOID) {
    out += "null";
  } else if (is_quoted(value.kind)) {
    std::string text;
    append_value(text, value, depth);
    append_quoted(out, text);
  } else {
    append_value(out, value, depth);
  }
}

void append_table(std::string& out, const amqp_table_t& table, int depth) {
  out += '{';
  for (int i = 0; i < table.num_entries; ++i) {
    if (i > 0) out += ',';
    append_quoted(out, as_view(table.entries[i].key));
    out += ':';
    append_nested(out, table.entries[i].value, depth);
  }
  out += '}';
}

void append_array(std::string& out, const amqp_array_t& array, int depth) {
  out += '[';
  for (int i = 0; i < array.num_entries; ++i) {
    if (i > 0) out += ',';
    append_nested(out, array.entries[i], depth);
  }
  out += ']';
}

void append_value(std::string& out, const amqp_field_value_t& value, int depth) {
  switch (value.kind) {
    case AMQP_FIELD_KIND_BOOLEAN:
      out += value.value.boolean != 0 ? "true" : "false";
      break;
    case AMQP_FIELD_KIND_I8:
      out += std::to_string(value.value.i8);
      break;
    case AMQP_FIELD_KIND_U8:
      out += std::to_string(value.value.u8);
      break;
    case AMQP_FIELD_KIND_I16:
      out += std::to_string(value.value.i16);
      break;
    case AMQP_FIELD_KIND_U16:
      out += std::to_string(value.value.u16);
      break;
    case AMQP_FIELD_KIND_I32:
      out += std::to_string(value.value.i32);
      break;
    case AMQP_FIELD_KIND_U32:
      out += std::to_string(value.value.u32);
      break;
    case AMQP_FIELD_KIND_I64:
      out += std::to_string(value.value.i64);
      break;
    case AMQP_FIELD_KIND_U64:
      out += std::to_string(value.value.u64);
      break;
    case AMQP_FIELD_KIND_F32:
      append_number(out, static_cast<double>(value.value.f32));
      break;
    case AMQP_FIELD_KIND_F64:
      append_number(out, value.value.f64);
      break;
    case AMQP_FIELD_KIND_DECIMAL:
      append_decimal(out, value.value.decimal);
      break;
    case AMQP_FIELD_KIND_TIMESTAMP:
      append_time(out, value.value.u64);
      break;
    case AMQP_FIELD_KIND_UTF8:
    case AMQP_FIELD_KIND_BYTES:
      out += as_view(value.value.bytes);
      break;
    case AMQP_FIELD_KIND_TABLE:
      if (depth < kDepthMax) append_table(out, value.value.table, depth + 1);
      break;
    case AMQP_FIELD_KIND_ARRAY:
      if (depth < kDepthMax) append_array(out, value.value.array, depth + 1);
      break;
    default:
      break;
  }
}

}  // namespace

void append_text(std::string& out, const amqp_field_value_t_& value) {
  append_value(out, value, 0);
}

}  // namespace dovetail::rabbitmq

#include "command/event_json.h"

#include <algorithm>

#include "core/event/headers.h"
#include "core/event/time_text.h"
#include "core/event/utf8.h"

namespace dovetail::command {

namespace {

constexpr std::size_t kLineMax = 300;

void add_quoted(std::string& json, std::string_view text) {
  const std::size_t at = json.size();
  json.resize(at + quoted_bytes(text));
  write_quoted(text, json.data() + at);
}

void add_text(std::string& json, std::string_view name, std::string_view value) {
  json += json.empty() ? "{\"" : ",\"";
  json += name;
  json += "\":";
  add_quoted(json, value);
}

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

}  // namespace

std::string base64(std::string_view bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const auto byte = [&](std::size_t at) -> std::uint32_t {
      return at < bytes.size() ? static_cast<std::uint8_t>(bytes[at]) : 0;
    };
    const std::uint32_t three = byte(i) << 16 | byte(i + 1) << 8 | byte(i + 2);
    text += kDigits[three >> 18];
    text += kDigits[three >> 12 & 63];
    text += i + 1 < bytes.size() ? kDigits[three >> 6 & 63] : '=';
    text += i + 2 < bytes.size() ? kDigits[three & 63] : '=';
  }
  return text;
}

std::string event_json(const Event& event) {
  std::string json;
  json.reserve(event.payload.size() + event.headers.size() + 512);
  add_text(json, "id", event.id.to_string());
  add_text(json, "topic", event.topic);
  add_text(json, "aggregate_type", event.aggregate_type);
  add_text(json, "aggregate_id", event.aggregate_id);
  add_text(json, "type", event.type);
  add_text(json, "content_type", event.content_type);
  char time[kTimeTextBytes];
  write_time(event.created_at, time);
  add_text(json, "created_at", {time, sizeof time});
  json += ",\"aggregate_version\":" + std::to_string(event.aggregate_version);
  json += ",\"headers\":";
  // JSON strings contain no raw line breaks; between values they have no meaning.
  for (const char c : event.headers.empty() ? std::string_view("{}") : event.headers)
    json += c == '\n' || c == '\r' ? ' ' : c;
  if (is_valid_utf8(event.payload)) {
    add_text(json, "payload", event.payload);
  } else {
    add_text(json, "payload_base64", base64(event.payload));
  }
  json += "}\n";
  return json;
}

std::string last_line(std::string_view errors) {
  while (!errors.empty() && (is_control(errors.back()) || errors.back() == ' '))
    errors.remove_suffix(1);
  const std::size_t start = errors.find_last_of("\n\r");
  if (start != std::string_view::npos) errors.remove_prefix(start + 1);
  // Either end may have been cut inside a character.
  std::string line = stored_text(errors, kLineMax);
  std::replace_if(line.begin(), line.end(), is_control, ' ');
  return line;
}

}  // namespace dovetail::command

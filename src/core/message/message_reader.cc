#include <algorithm>
#include <charconv>
#include <cstring>
#include <string>

#include "core/event/event_id.h"
#include "core/event/headers.h"
#include "core/event/name_id.h"
#include "core/event/time_text.h"
#include "core/event/utf8.h"
#include "core/message/cloudevents.h"
#include "core/message/message.h"

namespace dovetail {

namespace {

constexpr std::string_view kDebeziumPrefix = "outbox.event.";
constexpr EventLimits kLimits{};

bool is_text(std::string_view bytes) {
  return bytes.find('\0') == std::string_view::npos && is_valid_utf8(bytes);
}

char* write_hex(std::string_view bytes, char* to) {
  constexpr char kDigits[] = "0123456789abcdef";
  *to++ = '0';
  *to++ = 'x';
  for (const char c : bytes) {
    *to++ = kDigits[static_cast<unsigned char>(c) >> 4];
    *to++ = kDigits[static_cast<unsigned char>(c) & 0xf];
  }
  return to;
}

std::size_t hex_bytes(std::string_view bytes) { return 2 + 2 * bytes.size(); }

std::string_view as_text(std::string_view bytes, Arena& arena) {
  if (is_text(bytes)) return bytes;
  char* const start = arena.allocate(hex_bytes(bytes));
  return {start, static_cast<std::size_t>(write_hex(bytes, start) - start)};
}

std::string_view cut(std::string_view text, std::size_t bytes_max) {
  if (text.size() <= bytes_max) return text;
  // Does not cut inside a character.
  while (bytes_max > 0 && (static_cast<unsigned char>(text[bytes_max]) & 0xc0) == 0x80) --bytes_max;
  return text.substr(0, bytes_max);
}

// Converts one message.
class Reading {
 public:
  Reading(const ReceivedMessage& message, const MessageDialect& dialect, Arena& arena)
      : message_(message), dialect_(dialect), arena_(arena) {
    for (const MessageHeader& header : message.headers) {
      const std::size_t which = attribute_of(header.name);
      if (which == kAttributes.size() || found_[which] != nullptr) continue;
      found_[which] = &header;
    }
  }

  Event event(const ForeignNames& foreign, const EventId& spare_id) {
    Event event;
    event.position = message_.position;
    event.topic = name("topic", message_.topic);
    event.aggregate_type = name("aggregate type", aggregate_type(foreign.aggregate_type));
    event.aggregate_id = key(foreign.aggregate_id);
    event.type = name("type", type(foreign.type));
    event.content_type = name("content type", content_type());
    event.id = id(foreign.id, spare_id);
    event.created_at = created_at();
    event.aggregate_version = aggregate_version();
    event.headers = headers();
    event.payload = arena_.copy(message_.payload);
    event.defect = arena_.copy(defect_);
    return event;
  }

 private:
  std::size_t attribute_of(std::string_view name) const {
    for (const std::string_view prefix : {dialect_.attribute_prefix, dialect_.other_prefix}) {
      if (prefix.empty() || name.size() <= prefix.size() ||
          !same_name(name.substr(0, prefix.size()), prefix, dialect_.http_headers)) {
        continue;
      }
      const std::string_view rest = name.substr(prefix.size());
      for (std::size_t i = 0; i < kAttributes.size(); ++i) {
        if (same_name(rest, kAttributes[i], dialect_.http_headers)) return i;
      }
    }
    return kAttributes.size();
  }

  std::string_view attribute(Attribute which) const {
    const MessageHeader* const header = found_[static_cast<std::size_t>(which)];
    if (header == nullptr) return {};
    return dialect_.percent_encoded ? percent_decoded(header->value, arena_) : header->value;
  }

  std::string_view header(std::string_view name) const {
    if (name.empty()) return {};
    for (const MessageHeader& header : message_.headers) {
      if (same_name(header.name, name, dialect_.http_headers)) return header.value;
    }
    return {};
  }

  // The event has the value, so its headers need not repeat it.
  std::string_view taken(std::string_view name) {
    const std::string_view value = header(name);
    if (!value.empty()) taken_[taken_count_++] = name;
    return value;
  }

  void spoil(std::string why) {
    if (defect_.empty()) defect_ = std::move(why);
  }

  // A text that every event has.
  std::string_view name(std::string_view field, std::string_view text) {
    if (!is_text(text)) {
      spoil("the " + std::string(field) + " of the message is not valid UTF-8; check its producer");
    } else if (text.size() > kLimits.name_bytes_max) {
      spoil("the " + std::string(field) + " of the message has " + std::to_string(text.size()) +
            " bytes, the limit is " + std::to_string(kLimits.name_bytes_max) +
            "; check its producer");
    }
    return arena_.copy(cut(as_text(text, arena_), kLimits.name_bytes_max));
  }

  std::string_view key(std::string_view configured) {
    std::string_view bytes = taken(configured);
    if (bytes.empty()) bytes = attribute(Attribute::subject);
    if (bytes.empty()) bytes = message_.key;
    const std::string_view text = as_text(bytes, arena_);
    if (text.size() > kLimits.key_bytes_max) {
      spoil("the key of the message has " + std::to_string(text.size()) + " bytes, the limit is " +
            std::to_string(kLimits.key_bytes_max) + "; check its producer");
    }
    return arena_.copy(cut(text, kLimits.key_bytes_max));
  }

  std::string_view aggregate_type(std::string_view configured) {
    std::string_view text = taken(configured);
    if (text.empty()) text = attribute(Attribute::aggregatetype);
    if (!text.empty()) return text;
    text = message_.topic;
    if (text.starts_with(kDebeziumPrefix)) text.remove_prefix(kDebeziumPrefix.size());
    if (text.empty()) text = message_.topic;
    return text.empty() ? "message" : text;
  }

  std::string_view type(std::string_view configured) {
    std::string_view text = taken(configured);
    if (text.empty()) text = attribute(Attribute::type);
    if (text.empty()) text = header("eventType");
    return text.empty() ? "message" : text;
  }

  std::string_view content_type() {
    std::string_view text = message_.content_type;
    if (text.empty()) text = attribute(Attribute::datacontenttype);
    const std::string_view header =
        taken(dialect_.http_headers ? "content-type" : dialect_.content_type_header);
    if (text.empty()) text = header;
    return text.empty() ? "application/octet-stream" : text;
  }

  EventId id(std::string_view configured, const EventId& spare_id) {
    std::string_view text = taken(configured);
    if (text.empty()) text = attribute(Attribute::id);
    if (text.empty()) {
      text = message_.native_id;
      // If both exist, they are the same id of the same publisher, or two different things.
      if (text.empty() || text == header("id")) text = taken("id");
    }
    if (text.empty()) {
      if (!message_.place.empty()) return name_id(kMessageNames, message_.place);
      spoil(
          "the message has no id, and the broker gives it no permanent name; check its producer, "
          "or configure the header that carries its id");
      return spare_id;
    }
    if (const auto parsed = read_id(text)) return *parsed;
    const std::string_view source = attribute(Attribute::source);
    return name_id(name_id(kMessageNames, source.empty() ? message_.topic : source), text);
  }

  WallTime created_at() const {
    const auto time = parse_time(attribute(Attribute::time));
    return time ? *time : message_.time.value_or(WallTime{});
  }

  std::int64_t aggregate_version() const {
    const std::string_view text = attribute(Attribute::aggregateversion);
    std::int64_t version = 0;
    const auto end = std::from_chars(text.data(), text.data() + text.size(), version);
    return end.ptr == text.data() + text.size() && end.ec == std::errc{} ? version : 0;
  }

  bool is_own(const MessageHeader& header) const {
    if (attribute_of(header.name) != kAttributes.size()) return false;
    return std::none_of(taken_.begin(), taken_.begin() + taken_count_, [&](std::string_view name) {
      return same_name(header.name, name, dialect_.http_headers);
    });
  }

  std::string_view headers() {
    std::size_t bytes = 1;
    for (const MessageHeader& one : message_.headers) {
      if (!is_own(one)) continue;
      // An empty name becomes a single character.
      bytes += std::max<std::size_t>(one.name.size(), 1) + 4;
      bytes += is_header_value(one.value) ? quoted_bytes(one.value) : 2 + hex_bytes(one.value);
    }
    if (bytes == 1) return {};
    char* const start = arena_.allocate(bytes);
    char* to = start;
    for (const MessageHeader& one : message_.headers) {
      if (!is_own(one)) continue;
      *to = to == start ? '{' : ',';
      to = write_name(one.name, to + 1);
      *to++ = ':';
      if (is_header_value(one.value)) {
        to = write_quoted(one.value, to);
      } else {
        *to++ = '"';
        to = write_hex(one.value, to);
        *to++ = '"';
      }
    }
    *to++ = '}';
    return {start, static_cast<std::size_t>(to - start)};
  }

  static char* write_name(std::string_view name, char* to) {
    *to++ = '"';
    if (name.empty()) *to++ = '_';
    for (const char c : name.substr(0, 255)) *to++ = is_header_name({&c, 1}) ? c : '_';
    *to++ = '"';
    return to;
  }

  const ReceivedMessage& message_;
  const MessageDialect& dialect_;
  Arena& arena_;
  std::array<const MessageHeader*, kAttributes.size()> found_{};
  std::array<std::string_view, 8> taken_{};
  std::ptrdiff_t taken_count_ = 0;
  std::string defect_;
};

}  // namespace

MessageReader::MessageReader(ForeignNames foreign, const MessageDialect& dialect)
    : foreign_(std::move(foreign)), dialect_(dialect) {}

void MessageReader::read(const ReceivedMessage& message, const EventId& spare_id,
                         Batch& out) const {
  out.adopt(Reading(message, dialect_, out.arena()).event(foreign_, spare_id));
}

}  // namespace dovetail

#include <algorithm>
#include <charconv>
#include <string>

#include "core/event/event_id.h"
#include "core/event/headers.h"
#include "core/event/time_text.h"
#include "core/event/utf8.h"
#include "core/message/cloudevents.h"
#include "core/message/message.h"

namespace dovetail {

namespace {

std::string named(std::string_view name) {
  return "header \"" + std::string(name.substr(0, 60)) + "\"";
}

bool is_space(char c) { return c == ' ' || c == '\t'; }

bool is_partition(std::string_view text) {
  std::int32_t number = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), number);
  return end.ec == std::errc{} && end.ptr == text.data() + text.size() && number >= 0;
}

// Header names that the format writes, or that a reader treats alike.
std::vector<std::string> reserved_names(MessageFormat format, const MessageDialect& dialect) {
  std::vector<std::string> names;
  if (format == MessageFormat::debezium) names.emplace_back("id");
  if (format == MessageFormat::cloudevents) {
    for (const std::string_view attribute : kAttributes) {
      for (const std::string_view prefix : {dialect.attribute_prefix, dialect.other_prefix}) {
        if (!prefix.empty()) names.push_back(std::string(prefix) + std::string(attribute));
      }
    }
    if (!dialect.content_type_header.empty()) names.emplace_back(dialect.content_type_header);
  }
  if (dialect.http_headers) names.emplace_back("content-type");
  return names;
}

}  // namespace

Result<MessageWriter> MessageWriter::make(const MessageOptions& options,
                                          const MessageDialect& dialect) {
  MessageWriter writer;
  writer.format_ = options.format;
  writer.dialect_ = dialect;
  if (options.format == MessageFormat::cloudevents) {
    if (options.source.empty() || !is_header_value(options.source)) {
      return fail(Errc::rejected,
                  "the source of messages is empty or has control characters; set it to a "
                  "name or URI such as /shop/orders");
    }
    for (const std::string_view name : kAttributes) {
      writer.attributes_.push_back(std::string(dialect.attribute_prefix) + std::string(name));
    }
  }
  Arena arena;
  writer.source_ = std::string(writer.encoded(options.source, arena));
  writer.reserved_ = reserved_names(options.format, dialect);

  auto key = EventTemplate::parse(options.key);
  if (!key) return fail(key.error().code, "key of messages: " + key.error().text);
  writer.key_ = std::move(*key);
  if (!options.partition.empty()) {
    auto partition = EventTemplate::parse(options.partition);
    if (!partition) return fail(partition.error().code, "partition: " + partition.error().text);
    writer.partition_ = std::move(*partition);
  }
  for (const auto& [name, text] : options.headers) {
    if (!is_header_name(name)) {
      return fail(Errc::rejected,
                  named(name) + ": its name may have only letters, digits, '-', '_' and '.'");
    }
    if (writer.is_reserved(name)) {
      return fail(Errc::rejected, named(name) +
                                      " is written by the message format; choose another "
                                      "name");
    }
    if (writer.is_of_template(name)) {
      return fail(Errc::rejected, named(name) + " occurs twice; remove one of them");
    }
    auto value = EventTemplate::parse(text);
    if (!value) return fail(value.error().code, named(name) + ": " + value.error().text);
    writer.headers_.emplace_back(name, std::move(*value));
  }
  return writer;
}

Status MessageWriter::write(const Event& event, Arena& arena, Message& out) const {
  char* const id = arena.allocate(kIdTextBytes);
  write_id(event.id, id);
  out.id = {id, kIdTextBytes};
  out.topic = event.topic;
  out.key = key_.fill(event, arena);
  out.content_type = event.content_type;
  out.payload = event.payload;
  out.headers.clear();
  out.partition = partition_ ? partition_->fill(event, arena) : std::string_view{};
  if (!out.partition.empty() && !is_partition(out.partition)) {
    return fail(Errc::rejected,
                "its partition \"" + std::string(out.partition.substr(0, 60)) +
                    "\" is not a number; the partition template must yield a non-negative integer");
  }
  switch (format_) {
    case MessageFormat::cloudevents:
      add_attributes(event, arena, out);
      break;
    case MessageFormat::debezium:
      out.headers.push_back({"id", out.id});
      break;
    case MessageFormat::raw:
      break;
  }
  DOVETAIL_TRY(add_own_headers(event, arena, out));
  return add_template_headers(event, arena, out);
}

void MessageWriter::add_attributes(const Event& event, Arena& arena, Message& out) const {
  const auto add = [&](Attribute attribute, std::string_view value) {
    out.headers.push_back({attributes_[static_cast<std::size_t>(attribute)], value});
  };
  add(Attribute::specversion, "1.0");
  add(Attribute::id, out.id);
  add(Attribute::source, source_);
  add(Attribute::type, encoded(event.type, arena));
  char* const time = arena.allocate(kTimeTextBytes);
  write_time(event.created_at, time);
  add(Attribute::time, {time, kTimeTextBytes});
  if (!event.aggregate_id.empty()) add(Attribute::subject, encoded(event.aggregate_id, arena));
  add(Attribute::aggregatetype, encoded(event.aggregate_type, arena));
  if (event.aggregate_version != 0) {
    char text[20];
    const auto end = std::to_chars(text, text + sizeof text, event.aggregate_version).ptr;
    add(Attribute::aggregateversion, arena.copy({text, static_cast<std::size_t>(end - text)}));
  }
  if (dialect_.content_type_header.empty()) return;
  // An own header is not an attribute, so it is not encoded like one.
  const bool is_attribute = dialect_.content_type_header.starts_with(dialect_.attribute_prefix);
  out.headers.push_back({dialect_.content_type_header,
                         is_attribute ? encoded(event.content_type, arena) : event.content_type});
}

Status MessageWriter::add_own_headers(const Event& event, Arena& arena, Message& out) const {
  HeaderScanner scanner(event.headers);
  while (true) {
    const Result<bool> found = scanner.next();
    if (!found) return fail(found.error());
    if (!*found) return {};
    const std::string_view name = unescaped(scanner.name(), arena);
    const std::string_view value = unescaped(scanner.value(), arena);
    if (is_of_template(name)) continue;
    if (!is_header_name(name)) {
      return fail(Errc::rejected, named(name) +
                                      " of the event: its name may have only letters, digits, '-', "
                                      "'_' and '.'; check its publisher");
    }
    if (is_reserved(name)) {
      return fail(Errc::rejected, named(name) +
                                      " of the event is reserved by the message format; publish "
                                      "it under another name");
    }
    DOVETAIL_TRY(check_value(name, value));
    out.headers.push_back({name, value});
  }
}

Status MessageWriter::add_template_headers(const Event& event, Arena& arena, Message& out) const {
  for (const auto& [name, text] : headers_) {
    const std::string_view value = text.fill(event, arena);
    DOVETAIL_TRY(check_value(name, value));
    out.headers.push_back({name, value});
  }
  return {};
}

Status MessageWriter::check_value(std::string_view name, std::string_view value) const {
  if (!is_header_value(value)) {
    return fail(Errc::rejected, named(name) +
                                    ": its value must be text without line breaks or other "
                                    "control characters; check its publisher");
  }
  if (dialect_.http_headers && !value.empty() &&
      (is_space(value.front()) || is_space(value.back()))) {
    return fail(Errc::rejected, named(name) +
                                    ": its value begins or ends with a space, which would "
                                    "be lost; remove it");
  }
  return {};
}

std::string_view MessageWriter::encoded(std::string_view value, Arena& arena) const {
  return dialect_.percent_encoded ? percent_encoded(value, arena) : value;
}

bool MessageWriter::is_reserved(std::string_view name) const {
  return std::any_of(reserved_.begin(), reserved_.end(), [&](const std::string& one) {
    return same_name(one, name, dialect_.http_headers);
  });
}

bool MessageWriter::is_of_template(std::string_view name) const {
  return std::any_of(headers_.begin(), headers_.end(), [&](const auto& one) {
    return same_name(one.first, name, dialect_.http_headers);
  });
}

}  // namespace dovetail

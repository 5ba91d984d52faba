// Turns events into messages of a broker, and messages back into events.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/event/batch.h"
#include "core/message/event_template.h"
#include "dovetail/broker.h"
#include "dovetail/event.h"
#include "dovetail/result.h"

namespace dovetail {

enum class MessageFormat : std::uint8_t {
  cloudevents,  // binary mode: attributes in headers, payload unchanged
  debezium,     // like Debezium's outbox event router: header "id", key = aggregate_id
  raw,          // payload, key and the event's own headers; the id only if a template adds it
};

// What the CloudEvents binding of each broker decides for itself.
struct MessageDialect {
  std::string_view attribute_prefix;     // stands before "id", "type", "source" ...
  std::string_view content_type_header;  // empty: the broker has a property for it
  // Applies to attributes, not to the event's own headers.
  bool percent_encoded = false;
  // Headers are lines of text as in HTTP: names ignore case, and values lose surrounding
  // spaces.
  bool http_headers = false;
  std::string_view other_prefix{};  // readers accept this prefix, too
};

inline constexpr MessageDialect kKafkaDialect{"ce_", "content-type"};
inline constexpr MessageDialect kAmqpDialect{"cloudEvents:", "", false, false, "cloudEvents_"};
inline constexpr MessageDialect kNatsDialect{"ce-", "ce-datacontenttype", true, true};
inline constexpr MessageDialect kHttpDialect{"ce-", "", true, true};
// Redis streams have no CloudEvents binding; fields are named as in Kafka's.
inline constexpr MessageDialect kRedisDialect{"ce_", "content-type"};

struct MessageOptions {
  MessageFormat format = MessageFormat::cloudevents;
  std::string source = "dovetail";     // the CloudEvents attribute that names the publisher
  std::string key = "{aggregate_id}";  // template
  std::string partition{};             // template of a number; empty: the client library decides
  std::vector<std::pair<std::string, std::string>> headers{};  // more headers: name, template
};

struct MessageHeader {
  std::string_view name;
  std::string_view value;
};

// The most that key, attributes and headers add to the payload of an event within EventLimits,
// including percent-encoding and header names.
inline constexpr std::size_t kMessageOverheadMax = 23 << 10;

// A message to be sent. All views point into the event, the writer or the arena.
struct Message {
  std::string_view topic;
  std::string_view key;        // empty: none
  std::string_view partition;  // the event's id as text for the broker's own field, in every format
  std::string_view id;         // for the broker's own field, in every format
  std::string_view content_type;  // for the broker's own field; in every format
  std::string_view payload;
  std::vector<MessageHeader> headers{};
};

// Any thread; immutable after make().
class MessageWriter {
 public:
  // rejected: a template, the source or a header name is wrong; the text says which.
  static Result<MessageWriter> make(const MessageOptions& options, const MessageDialect& dialect);

  // Fills `out` and reuses its memory. The order of headers: those of the format, the event's
  // own, those of templates, which replace an own header of the same name. rejected: the event
  // has a header that the format reserves or the dialect cannot carry, or its partition is not a
  // number.
  Status write(const Event& event, Arena& arena, Message& out) const;

 private:
  void add_attributes(const Event& event, Arena& arena, Message& out) const;
  Status add_own_headers(const Event& event, Arena& arena, Message& out) const;
  Status add_template_headers(const Event& event, Arena& arena, Message& out) const;
  Status check_value(std::string_view name, std::string_view value) const;
  std::string_view encoded(std::string_view value, Arena& arena) const;
  bool is_reserved(std::string_view name) const;
  bool is_of_template(std::string_view name) const;

  MessageFormat format_{};
  MessageDialect dialect_{};
  std::string source_;  // encoded
  EventTemplate key_;
  std::optional<EventTemplate> partition_;
  std::vector<std::pair<std::string, EventTemplate>> headers_;
  std::vector<std::string> attributes_;  // header names, in the order of kAttributes
  std::vector<std::string> reserved_;
};

// A message from the broker's client. Views must be valid during the call only.
struct ReceivedMessage {
  std::string_view topic;
  std::string_view key{};
  std::span<const MessageHeader> headers{};
  std::string_view payload{};
  std::string_view content_type{};  // if the broker has a property for it
  std::string_view native_id{};     // from the broker's own field, such as AMQP's message-id
  std::int64_t position = 0;        // the position of the event
  // A lasting name of the message, such as "orders/3/1234". It gives the id of a message without
  // one. Empty: the broker's messages have no lasting name.
  std::string_view place{};
  std::optional<WallTime> time{};  // from the broker, if the message has no time
};

// Any thread; immutable after construction. A configured header name always comes first.
//
// The id comes from the configured header, else the CloudEvents id, the broker's own field,
// the header "id", the message's place. A UUID is taken as it is. Any other text gives a UUID
// by its name, always the same: name_id(name_id(kMessageNames, scope), text), where the scope
// is the CloudEvents source, else the topic; for a place name_id(kMessageNames, place).
//
// The key comes from the CloudEvents subject, else the message's key. Bytes that are not text
// become hexadecimal after "0x", also in header values. The aggregate type comes from the
// CloudEvents attribute "aggregatetype", else the topic without a leading "outbox.event."; the
// type from the CloudEvents type, else the header "eventType", else "message". The event's
// headers do not repeat the header that carried the id, CloudEvents attributes that Dovetail
// writes, or the content type. In header names '_' replaces each character that is not
// allowed.
class MessageReader {
 public:
  MessageReader(ForeignNames foreign, const MessageDialect& dialect);

  // Adds the event to `out`. A message that cannot become an event gets `Event::defect`, and the
  // relay parks it. Its names are then cut to what is allowed, and without an id it gets
  // `spare_id`.
  void read(const ReceivedMessage& message, const EventId& spare_id, Batch& out) const;

 private:
  ForeignNames foreign_;
  MessageDialect dialect_;
};

}  // namespace dovetail

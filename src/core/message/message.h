// How an event looks as a message of a broker, and how a message becomes an event again.
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
#include "dovetail/event.h"
#include "dovetail/result.h"

namespace dovetail {

enum class MessageFormat : std::uint8_t {
  cloudevents,  // binary mode: attributes in headers, the payload as it is
  debezium,     // as Debezium's outbox event router sends it: header "id", key = aggregate_id
  raw,          // payload, key and the event's own headers; its id only where a template adds it
};

// How a broker's CloudEvents binding spells what the format leaves open.
struct MessageDialect {
  std::string_view attribute_prefix;     // before "id", "type", "source" ...
  std::string_view content_type_header;  // empty: the broker has a property for it
  // Attributes, not the event's own headers.
  bool percent_encoded = false;
  // Headers are lines of text as in HTTP: names ignore case, and values lose the spaces around
  // them.
  bool http_headers = false;
  std::string_view other_prefix{};  // readers understand this one, too
};

inline constexpr MessageDialect kKafkaDialect{"ce_", "content-type"};
inline constexpr MessageDialect kAmqpDialect{"cloudEvents:", "", false, false, "cloudEvents_"};
inline constexpr MessageDialect kNatsDialect{"ce-", "ce-datacontenttype", true, true};
inline constexpr MessageDialect kHttpDialect{"ce-", "", true, true};
// There is no binding for streams of Redis; the fields of an entry are named as in Kafka's.
inline constexpr MessageDialect kRedisDialect{"ce_", "content-type"};

struct MessageOptions {
  MessageFormat format = MessageFormat::cloudevents;
  std::string source = "dovetail";     // the CloudEvents attribute: who publishes
  std::string key = "{aggregate_id}";  // template
  std::string partition{};             // template of a number; empty: the broker's client decides
  std::vector<std::pair<std::string, std::string>> headers{};  // more headers: name, template
};

struct MessageHeader {
  std::string_view name;
  std::string_view value;
};

// What the key, the attributes and the headers of an event add to its payload at most, where the
// event keeps to EventLimits: also percent-encoded, with the names of the headers.
inline constexpr std::size_t kMessageOverheadMax = 23 << 10;

// A message to be sent. All views point into the event, the writer or the arena.
struct Message {
  std::string_view topic;
  std::string_view key;        // empty: none
  std::string_view partition;  // digits; empty: the broker's client decides
  std::string_view id;         // of the event, as text, for the broker's own field; in every format
  std::string_view content_type;  // for the broker's own field; in every format
  std::string_view payload;
  std::vector<MessageHeader> headers{};
};

// Any thread; immutable after make().
class MessageWriter {
 public:
  // rejected: a template, the source or a name of a header is wrong; the text says which.
  static Result<MessageWriter> make(const MessageOptions& options, const MessageDialect& dialect);

  // Fills `out`, whose memory is used again. Headers come in this order: those of the format, the
  // event's own, those of templates, which replace an own header of the same name. rejected: the
  // event has a header that the format needs for itself or that the dialect cannot carry as it is,
  // or its partition is no number.
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
  std::vector<std::string> attributes_;  // names of headers, in the order of kAttributes
  std::vector<std::string> reserved_;
};

// A message as a broker's client gives it. Views need to live only as long as the call.
struct ReceivedMessage {
  std::string_view topic;
  std::string_view key{};
  std::span<const MessageHeader> headers{};
  std::string_view payload{};
  std::string_view content_type{};  // where the broker has a property for it
  std::string_view native_id{};     // of the broker's own field, such as AMQP's message-id
  std::int64_t position = 0;        // of the event that it becomes
  // Names the message for ever, such as "orders/3/1234"; the id of messages that carry none is
  // made of it. Empty: the broker gives messages no lasting name.
  std::string_view place{};
  std::optional<WallTime> time{};  // of the broker, where the message says none
};

// Where the messages of others carry what ours carry elsewhere. Names of headers; empty: not there.
struct ForeignNames {
  std::string id{};
  std::string type{};
  std::string aggregate_type{};
  std::string aggregate_id{};
};

// Any thread; immutable after construction. What a configured name finds comes first, everywhere.
//
// The id is that of the configured header, else the CloudEvents id, the broker's own field, the
// header "id", the message's place. A UUID is taken as it is. Any other text becomes one by its
// name, the same one every time: name_id(name_id(kMessageNames, scope), text), where the scope is
// the CloudEvents source, else the topic; for a place name_id(kMessageNames, place).
//
// The key is the CloudEvents subject, else the message's key; bytes that are no text are written in
// hexadecimal behind "0x", as are values of headers. The aggregate type is the CloudEvents
// attribute "aggregatetype", else the topic without "outbox.event." before it; the type is the
// CloudEvents type, the header "eventType", "message". Headers that carried the id, attributes of
// CloudEvents that Dovetail writes and the content type are not among the event's headers. In names
// of headers
// '_' stands for every character that no name may have.
class MessageReader {
 public:
  MessageReader(ForeignNames foreign, const MessageDialect& dialect);

  // Adds the event to `out`. A message that cannot become one gets `Event::defect`, and the relay
  // parks it; its names are then cut to what is possible, and its id is `spare_id` where it has
  // none.
  void read(const ReceivedMessage& message, const EventId& spare_id, Batch& out) const;

 private:
  ForeignNames foreign_;
  MessageDialect dialect_;
};

}  // namespace dovetail

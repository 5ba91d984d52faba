#include "rabbitmq/protocol/frames.h"

#include <amqp.h>
#include <amqp_framing.h>

#include "core/check.h"

namespace dovetail::rabbitmq {

namespace {

constexpr std::size_t kMethodBytesMax = 16 << 10;  // for methods that we send

void put8(std::string& out, std::uint8_t value) { out += static_cast<char>(value); }

void put16(std::string& out, std::uint16_t value) {
  put8(out, static_cast<std::uint8_t>(value >> 8));
  put8(out, static_cast<std::uint8_t>(value));
}

void put32(std::string& out, std::uint32_t value) {
  put16(out, static_cast<std::uint16_t>(value >> 16));
  put16(out, static_cast<std::uint16_t>(value));
}

void put64(std::string& out, std::uint64_t value) {
  put32(out, static_cast<std::uint32_t>(value >> 32));
  put32(out, static_cast<std::uint32_t>(value));
}

void put_short_string(std::string& out, std::string_view text) {
  put8(out, static_cast<std::uint8_t>(text.size()));
  out += text;
}

// Begins a frame; its length is written by end_frame().
std::size_t begin_frame(std::string& out, std::uint8_t type, std::uint16_t channel) {
  put8(out, type);
  put16(out, channel);
  put32(out, 0);
  return out.size();
}

void end_frame(std::string& out, std::size_t begin) {
  const auto size = static_cast<std::uint32_t>(out.size() - begin);
  for (std::size_t i = 0; i < 4; ++i) out[begin - 4 + i] = static_cast<char>(size >> (24 - 8 * i));
  put8(out, AMQP_FRAME_END);
}

std::string too_long(std::string_view what, std::size_t size) {
  return std::string(what) + " has " + std::to_string(size) +
         " bytes, AMQP allows at most 255; check the template or the event";
}

}  // namespace

amqp_bytes_t_ as_bytes(std::string_view text) {
  return amqp_bytes_t{text.size(), const_cast<char*>(text.data())};
}

std::string_view as_view(const amqp_bytes_t_& bytes) {
  return {static_cast<const char*>(bytes.bytes), bytes.len};
}

void append_method(std::string& out, std::uint16_t channel, std::uint32_t method, void* decoded) {
  const std::size_t begin = begin_frame(out, AMQP_FRAME_METHOD, channel);
  put32(out, method);
  const std::size_t at = out.size();
  out.resize(at + kMethodBytesMax);
  const int size = amqp_encode_method(method, decoded, amqp_bytes_t{kMethodBytesMax, &out[at]});
  DOVETAIL_CHECK(size >= 0);
  out.resize(at + static_cast<std::size_t>(size));
  end_frame(out, begin);
}

void append_heartbeat(std::string& out) {
  end_frame(out, begin_frame(out, AMQP_FRAME_HEARTBEAT, 0));
}

PublishEncoder::PublishEncoder() = default;
PublishEncoder::~PublishEncoder() = default;

std::string PublishEncoder::why_not(const Publish& publish) const {
  const Message& message = *publish.message;
  if (publish.exchange.size() > kShortStringMax)
    return too_long("the name of the exchange", publish.exchange.size());
  if (publish.routing_key.size() > kShortStringMax)
    return too_long("the routing key", publish.routing_key.size());
  if (message.id.size() > kShortStringMax) return too_long("the message id", message.id.size());
  if (message.content_type.size() > kShortStringMax)
    return too_long("the content type", message.content_type.size());
  for (const MessageHeader& header : message.headers) {
    if (header.name.size() > kShortStringMax)
      return too_long("the name of a header", header.name.size());
    if (header.name == publish.key_header)
      return "the header \"" + std::string(header.name) +
             "\" is the one that carries the key; check key_header, or name the event's otherwise";
  }
  return {};
}

bool PublishEncoder::append_properties(std::string& out, std::uint16_t channel,
                                       const Publish& publish, std::size_t frame_bytes_max) {
  const Message& message = *publish.message;
  entries_.clear();
  std::size_t size_max = 1024 + publish.key_header.size() + message.key.size();
  const auto add = [&](std::string_view name, std::string_view value) {
    amqp_table_entry_t entry{};
    entry.key = as_bytes(name);
    entry.value.kind = AMQP_FIELD_KIND_UTF8;
    entry.value.value.bytes = as_bytes(value);
    entries_.push_back(entry);
    size_max += name.size() + value.size() + 8;
  };
  for (const MessageHeader& header : message.headers) add(header.name, header.value);
  if (!publish.key_header.empty() && !message.key.empty()) add(publish.key_header, message.key);

  amqp_basic_properties_t properties{};
  properties._flags = AMQP_BASIC_HEADERS_FLAG | AMQP_BASIC_DELIVERY_MODE_FLAG |
                      AMQP_BASIC_MESSAGE_ID_FLAG | AMQP_BASIC_TIMESTAMP_FLAG;
  properties.headers = amqp_table_t{static_cast<int>(entries_.size()), entries_.data()};
  properties.delivery_mode = 2;
  properties.message_id = as_bytes(message.id);
  properties.timestamp = static_cast<std::uint64_t>(
      std::chrono::floor<std::chrono::seconds>(publish.time.time_since_epoch()).count());
  if (!message.content_type.empty()) {
    properties._flags |= AMQP_BASIC_CONTENT_TYPE_FLAG;
    properties.content_type = as_bytes(message.content_type);
  }

  const std::size_t begin = begin_frame(out, AMQP_FRAME_HEADER, channel);
  put16(out, AMQP_BASIC_CLASS);
  put16(out, 0);
  put64(out, message.payload.size());
  const std::size_t at = out.size();
  out.resize(at + size_max);
  const int size =
      amqp_encode_properties(AMQP_BASIC_CLASS, &properties, amqp_bytes_t{size_max, &out[at]});
  DOVETAIL_CHECK(size >= 0);
  out.resize(at + static_cast<std::size_t>(size));
  end_frame(out, begin);
  return out.size() - begin + kFrameExtra <= frame_bytes_max;
}

std::string PublishEncoder::append(std::string& out, std::uint16_t channel, const Publish& publish,
                                   std::size_t frame_bytes_max) {
  if (std::string reason = why_not(publish); !reason.empty()) return reason;
  const std::size_t start = out.size();
  const std::size_t begin = begin_frame(out, AMQP_FRAME_METHOD, channel);
  put32(out, AMQP_BASIC_PUBLISH_METHOD);
  put16(out, 0);
  put_short_string(out, publish.exchange);
  put_short_string(out, publish.routing_key);
  put8(out, publish.is_mandatory ? 1 : 0);
  end_frame(out, begin);
  if (!append_properties(out, channel, publish, frame_bytes_max)) {
    const std::size_t size = out.size() - start;
    out.resize(start);
    return "its headers take " + std::to_string(size) + " bytes, the server takes at most " +
           std::to_string(frame_bytes_max) +
           "; check the event's headers or the server's frame_max";
  }
  const std::string_view payload = publish.message->payload;
  const std::size_t piece_max = frame_bytes_max - kFrameExtra;
  for (std::size_t at = 0; at < payload.size(); at += piece_max) {
    const std::size_t body = begin_frame(out, AMQP_FRAME_BODY, channel);
    out += payload.substr(at, piece_max);
    end_frame(out, body);
  }
  return {};
}

}  // namespace dovetail::rabbitmq

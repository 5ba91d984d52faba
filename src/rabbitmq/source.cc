#include "rabbitmq/source.h"

#include <amqp.h>
#include <amqp_framing.h>

#include <algorithm>
#include <optional>

#include "core/check.h"
#include "host/host.h"
#include "rabbitmq/protocol/field_text.h"
#include "rabbitmq/protocol/frame_guard.h"
#include "rabbitmq/protocol/frames.h"

namespace dovetail::rabbitmq {

namespace {

constexpr std::uint16_t kDeliveryChannel = 1;
constexpr std::uint16_t kDeclareChannel = 2;
constexpr std::size_t kSpareMax = 256;
constexpr std::size_t kSpareBytesMax = 64 << 10;
constexpr Duration kGoodbyeTimeMax = std::chrono::seconds(5);

std::string queue_text(const std::string& queue, int code, const std::string& text) {
  std::string what = "RabbitMQ refused to read the queue \"" + queue + "\": " + text + "; check ";
  if (code == AMQP_NOT_FOUND) return what + "its name, or create it";
  if (code == AMQP_ACCESS_REFUSED)
    return what +
           "that no other consumer reads it and that the user may; if the queue has "
           "x-single-active-consumer, set exclusive = false";
  return what + "the type of the queue";
}

}  // namespace

std::size_t RabbitmqSource::Delivery::bytes() const {
  std::size_t sum = body.size() + routing_key.size() + content_type.size() + message_id.size();
  for (std::size_t i = 0; i < header_count; ++i)
    sum += headers[i].first.size() + headers[i].second.size();
  return sum;
}

void RabbitmqSource::Delivery::add_header(std::string_view name, std::string_view value) {
  if (header_count == headers.size()) headers.emplace_back();
  headers[header_count].first = name;
  headers[header_count].second = value;
  ++header_count;
  if (name.starts_with("cloudEvents")) is_cloudevent = true;
}

RabbitmqSource::RabbitmqSource(Options options, Clock& clock)
    : options_(std::move(options)),
      clock_(clock),
      reader_(options_.foreign, kAmqpDialect),
      key_header_(options_.key_header.empty() ? "key" : options_.key_header) {}

RabbitmqSource::~RabbitmqSource() {
  if (connection_ != nullptr) connection_->close(kGoodbyeTimeMax);
}

Status RabbitmqSource::open() {
  if (connection_ != nullptr) connection_->close(kGoodbyeTimeMax);
  connection_.reset();
  drop_pending();
  base_ =
      std::max(base_ + static_cast<std::int64_t>(given_), clock_.wall().time_since_epoch().count());
  given_ = acknowledged_ = 0;
  is_flushed_ = true;
  if (options_.queues.empty())
    return fail(Errc::rejected, "the RabbitMQ source needs queues; set read");
  Result<std::unique_ptr<Connection>> connection = Connection::open(
      options_, "source", clock_, [this](const amqp_frame_t_& frame) { return on_frame(frame); });
  if (!connection) return fail(connection.error());
  DOVETAIL_TRY(start(**connection));
  connection_ = std::move(*connection);
  return {};
}

Status RabbitmqSource::start(Connection& connection) {
  DOVETAIL_TRY(connection.open_channel(kDeliveryChannel));
  const Result<Answer> limited = set_prefetch(connection);
  if (!limited) return fail(limited.error());
  if (limited->refused != 0)
    return fail(Errc::unavailable,
                "RabbitMQ refused the prefetch: " + limited->text + "; check prefetch");
  for (std::size_t i = 0; i < options_.queues.size(); ++i) DOVETAIL_TRY(consume(connection, i));
  return {};
}

Result<Answer> RabbitmqSource::set_prefetch(Connection& connection) const {
  amqp_basic_qos_t qos{};
  qos.prefetch_count = std::max<std::uint16_t>(options_.prefetch, 1);
  return connection.call(kDeliveryChannel, AMQP_BASIC_QOS_METHOD, &qos, AMQP_BASIC_QOS_OK_METHOD);
}

Status RabbitmqSource::consume(Connection& connection, std::size_t index) {
  const std::string& queue = options_.queues[index];
  if (queue.size() > kShortStringMax)
    return fail(Errc::rejected,
                "the queue name \"" + queue + "\" is longer than 255 bytes; check read");
  if (options_.declare) {
    DOVETAIL_TRY(connection.open_channel(kDeclareChannel));
    const Result<Answer> declared =
        declare_queue(connection, kDeclareChannel, queue, options_.queue_type);
    if (!declared) return fail(declared.error());
    if (declared->refused == 0) {
      amqp_channel_close_t close{};
      close.reply_code = AMQP_REPLY_SUCCESS;
      const Result<Answer> closed = connection.call(kDeclareChannel, AMQP_CHANNEL_CLOSE_METHOD,
                                                    &close, AMQP_CHANNEL_CLOSE_OK_METHOD);
      if (!closed) return fail(closed.error());
    } else if (declared->refused != AMQP_PRECONDITION_FAILED) {
      return fail(Errc::unavailable, queue_text(queue, declared->refused, declared->text));
    }
  }
  // The consumer tag identifies the queue of a message or a cancellation.
  const std::string tag = std::to_string(index);
  amqp_basic_consume_t wish{};
  wish.queue = as_bytes(queue);
  wish.consumer_tag = as_bytes(tag);
  wish.exclusive = options_.exclusive ? 1 : 0;
  const Result<Answer> answer = connection.call(kDeliveryChannel, AMQP_BASIC_CONSUME_METHOD, &wish,
                                                AMQP_BASIC_CONSUME_OK_METHOD);
  if (!answer) return fail(answer.error());
  if (answer->refused != 0)
    return fail(Errc::unavailable, queue_text(queue, answer->refused, answer->text));
  return {};
}

void RabbitmqSource::drop_pending() { pending_.clear(); }

Status RabbitmqSource::read(Batch& out, const Limits& limits, std::stop_token stop) {
  if (connection_ == nullptr)
    return fail(Errc::unavailable, "RabbitMQ: the source is not open; call open() first");
  const std::stop_callback wake(stop, [this] { connection_->wake(); });
  const TimePoint deadline = clock_.now() + limits.wait_max;
  // First gives pending messages, then those that the server has sent meanwhile.
  give(out, limits);
  if (!pending_.empty() && has_whole()) return {};
  DOVETAIL_TRY(connection_->pump(Duration{0}));
  give(out, limits);
  while (out.empty() && !stop.stop_requested()) {
    const Duration left = deadline - clock_.now();
    if (left <= Duration{0}) break;
    DOVETAIL_TRY(connection_->pump(left));
    give(out, limits);
  }
  return {};
}

void RabbitmqSource::give(Batch& out, const Limits& limits) {
  while (has_whole() && out.size() < limits.events_max) {
    Delivery& delivery = pending_.front();
    if (!out.empty() && out.bytes() + delivery.bytes() > limits.bytes_max) return;
    give_one(delivery, out);
    given_ = delivery.tag;
    if (spare_.size() < kSpareMax && delivery.body.capacity() <= kSpareBytesMax)
      spare_.push_back(std::move(delivery));
    pending_.pop_front();
  }
}

void RabbitmqSource::give_one(const Delivery& delivery, Batch& out) {
  headers_.clear();
  ReceivedMessage message;
  const std::string& key_header = delivery.is_cloudevent ? options_.key_header : key_header_;
  for (std::size_t i = 0; i < delivery.header_count; ++i) {
    const auto& [name, value] = delivery.headers[i];
    if (!key_header.empty() && name == key_header)
      message.key = value;
    else
      headers_.push_back(MessageHeader{name, value});
  }
  message.topic = delivery.routing_key;
  message.headers = headers_;
  message.payload = delivery.body;
  message.content_type = delivery.content_type;
  message.native_id = delivery.message_id;
  message.position = base_ + static_cast<std::int64_t>(delivery.tag);
  message.time = delivery.time;
  reader_.read(message, new_event_id(), out);
  // The event is parked, and its queue continues.
  if (delivery.is_unreadable)
    out.events().back().defect =
        out.arena().copy("the headers of the message are nested more than " +
                         std::to_string(kNestingMax) + " deep, or malformed; check its producer");
}

Status RabbitmqSource::settle(const Batch& batch, std::span<const Settled> fates) {
  DOVETAIL_CHECK(fates.size() == batch.size());
  if (connection_ == nullptr)
    return fail(Errc::unavailable, "RabbitMQ: the source is not open; call open() first");
  if (batch.empty()) return {};
  // Batches are settled once, in reading order. So everything up to the last message is settled,
  // and one multiple ack covers it.
  const std::int64_t tag = batch.events().back().position - base_;
  if (tag <= static_cast<std::int64_t>(acknowledged_)) return {};  // of an earlier connection
  DOVETAIL_CHECK(tag <= static_cast<std::int64_t>(given_));
  acknowledged_ = static_cast<std::uint64_t>(tag);
  amqp_basic_ack_t ack{};
  ack.delivery_tag = acknowledged_;
  ack.multiple = 1;
  connection_->send(kDeliveryChannel, AMQP_BASIC_ACK_METHOD, &ack);
  is_flushed_ = false;
  return connection_->push();
}

Status RabbitmqSource::flush() {
  if (is_flushed_) return {};
  if (connection_ == nullptr)
    return fail(Errc::unavailable, "RabbitMQ: the source is not open; call open() first");
  // A channel works in order, so this answer shows that the acks have been processed, too.
  const Result<Answer> answer = set_prefetch(*connection_);
  if (!answer) return fail(answer.error());
  if (answer->refused != 0)
    return fail(Errc::unavailable, "RabbitMQ closed the channel: " + answer->text +
                                       "; check that its queue still exists");
  is_flushed_ = true;
  return {};
}

Status RabbitmqSource::on_frame(const amqp_frame_t_& frame) {
  if (frame.channel != kDeliveryChannel) return {};
  if (frame.frame_type == AMQP_FRAME_METHOD) return on_method(frame);
  if (pending_.empty() || pending_.back().is_whole) return {};
  Delivery& delivery = pending_.back();
  if (frame.frame_type == AMQP_FRAME_HEADER) {
    if (frame.payload.properties.class_id != AMQP_BASIC_CLASS)
      return fail(Errc::unavailable,
                  "the server sent a malformed message; check that it is RabbitMQ");
    on_properties(frame);
  } else if (frame.frame_type == AMQP_FRAME_BODY) {
    delivery.body += as_view(frame.payload.body_fragment);
  }
  delivery.is_whole = delivery.body.size() >= delivery.body_size;
  return {};
}

Status RabbitmqSource::on_method(const amqp_frame_t_& frame) {
  switch (frame.payload.method.id) {
    case AMQP_BASIC_DELIVER_METHOD: {
      const auto& deliver = method_of<amqp_basic_deliver_t>(frame);
      if (spare_.empty()) {
        pending_.emplace_back();
      } else {
        pending_.push_back(std::move(spare_.back()));
        spare_.pop_back();
      }
      Delivery& delivery = pending_.back();
      delivery.tag = deliver.delivery_tag;
      delivery.routing_key = as_view(deliver.routing_key);
      delivery.content_type.clear();
      delivery.message_id.clear();
      delivery.time.reset();
      delivery.header_count = 0;
      delivery.is_cloudevent = false;
      delivery.is_unreadable = false;
      delivery.body.clear();
      delivery.body_size = 0;
      delivery.is_whole = false;
      return {};
    }
    case AMQP_BASIC_CANCEL_METHOD: {
      const std::string tag(as_view(method_of<amqp_basic_cancel_t>(frame).consumer_tag));
      const auto index = static_cast<std::size_t>(std::atoi(tag.c_str()));
      return fail(Errc::unavailable,
                  "RabbitMQ cancelled the consumer of queue \"" +
                      (index < options_.queues.size() ? options_.queues[index] : tag) +
                      "\"; check whether it was deleted or has lost its leader");
    }
    case AMQP_CHANNEL_CLOSE_METHOD:
      return fail(Errc::unavailable,
                  "RabbitMQ closed the channel: " +
                      std::string(as_view(method_of<amqp_channel_close_t>(frame).reply_text)) +
                      "; check the queue, and the server's consumer_timeout if handlers are slow");
    default:
      return {};
  }
}

void RabbitmqSource::on_properties(const amqp_frame_t_& frame) {
  Delivery& delivery = pending_.back();
  delivery.body_size = frame.payload.properties.body_size;
  const auto& properties =
      *static_cast<const amqp_basic_properties_t*>(frame.payload.properties.decoded);
  const auto has = [&properties](amqp_flags_t flag) { return (properties._flags & flag) != 0; };
  if (has(AMQP_BASIC_CONTENT_TYPE_FLAG)) delivery.content_type = as_view(properties.content_type);
  if (has(AMQP_BASIC_MESSAGE_ID_FLAG)) delivery.message_id = as_view(properties.message_id);
  if (has(AMQP_BASIC_TIMESTAMP_FLAG) && properties.timestamp < 253'402'300'800)  // the year 10000
    delivery.time = WallTime(std::chrono::seconds(properties.timestamp));
  if (has(AMQP_BASIC_HEADERS_FLAG)) {
    for (int i = 0; i < properties.headers.num_entries; ++i) {
      const amqp_table_entry_t& entry = properties.headers.entries[i];
      delivery.is_unreadable |= as_view(entry.key) == kUnreadableHeaders;
      text_.clear();
      append_text(text_, entry.value);
      delivery.add_header(as_view(entry.key), text_);
    }
  }
  // Other AMQP properties, so that the configuration can name them.
  const auto keep = [&](amqp_flags_t flag, std::string_view name, const amqp_bytes_t& value) {
    if (has(flag)) delivery.add_header(name, as_view(value));
  };
  keep(AMQP_BASIC_TYPE_FLAG, "amqp.type", properties.type);
  keep(AMQP_BASIC_CORRELATION_ID_FLAG, "amqp.correlation_id", properties.correlation_id);
  keep(AMQP_BASIC_REPLY_TO_FLAG, "amqp.reply_to", properties.reply_to);
  keep(AMQP_BASIC_APP_ID_FLAG, "amqp.app_id", properties.app_id);
  keep(AMQP_BASIC_CONTENT_ENCODING_FLAG, "amqp.content_encoding", properties.content_encoding);
}

std::unique_ptr<Source> make_source(Options options, Duration call_max, Clock& clock) {
  options.request_timeout = std::min(options.request_timeout, call_max);
  return std::make_unique<RabbitmqSource>(std::move(options), clock);
}

}  // namespace dovetail::rabbitmq

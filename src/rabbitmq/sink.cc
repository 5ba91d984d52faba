#include "rabbitmq/sink.h"

#include <amqp.h>
#include <amqp_framing.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "core/check.h"

namespace dovetail::rabbitmq {

namespace {

constexpr std::uint16_t kPublishChannel = 1;
constexpr std::uint16_t kControlChannel = 2;  // asking for something that is missing closes it
constexpr std::uint16_t kAloneChannel = 3;
constexpr std::size_t kChunkBytes = 64 << 10;
constexpr std::size_t kUnsentBytesMax = 256
                                        << 10;  // in the connection's buffer; the rest waits here
constexpr std::size_t kSuspectsMax = 10'000;
constexpr Duration kCarefulTimeMax = std::chrono::seconds(2);  // within one submit()

// The last number in "message size 5 is larger than configured max size 4".
std::size_t size_limit_in(std::string_view text) {
  const std::size_t at = text.rfind("max size ");
  std::size_t limit = 0;
  if (at != std::string_view::npos)
    std::from_chars(text.data() + at + 9, text.data() + text.size(), limit);
  return limit;
}

}  // namespace

std::string RabbitmqSink::Destination::name() const {
  std::string both(exchange);
  both += '\0';
  both += routing_key;
  return both;
}

Result<std::unique_ptr<RabbitmqSink>> RabbitmqSink::make(Options options, Clock& clock) {
  Result<MessageWriter> writer = MessageWriter::make(options.message, kAmqpDialect);
  if (!writer) return fail(writer.error());
  std::optional<EventTemplate> exchange;
  if (!options.exchange.empty()) {
    Result<EventTemplate> parsed = EventTemplate::parse(options.exchange);
    if (!parsed) return fail(Errc::rejected, "exchange: " + parsed.error().text);
    exchange = std::move(*parsed);
  }
  Result<EventTemplate> routing_key = EventTemplate::parse(options.routing_key);
  if (!routing_key) return fail(Errc::rejected, "routing key: " + routing_key.error().text);
  return std::unique_ptr<RabbitmqSink>(new RabbitmqSink(
      std::move(options), clock, std::move(*writer), std::move(exchange), std::move(*routing_key)));
}

RabbitmqSink::RabbitmqSink(Options options, Clock& clock, MessageWriter writer,
                           std::optional<EventTemplate> exchange, EventTemplate routing_key)
    : options_(std::move(options)),
      clock_(clock),
      writer_(std::move(writer)),
      exchange_(std::move(exchange)),
      routing_key_(std::move(routing_key)),
      key_header_(options_.key_header) {
  if (key_header_.empty() && options_.message.format != MessageFormat::cloudevents)
    key_header_ = "key";
}

RabbitmqSink::~RabbitmqSink() { leave(); }

// Does not wait for confirmations. The proper close keeps the server's log clean.
void RabbitmqSink::leave() {
  if (connection_ == nullptr) return;
  probing_ = connection_->blocked();
  if (!probing_ && connection_->unsent() == 0) connection_->close(std::chrono::milliseconds(200));
  connection_.reset();
}

Status RabbitmqSink::open() {
  leave();
  tracker_.clear();
  confirmations_.clear();
  chunk_.clear();
  chunks_.clear();
  why_returned_.clear();
  known_.clear();
  last_known_.clear();
  server_bytes_max_ = 0;
  control_open_ = alone_open_ = publish_open_ = probe_fed_ = false;
  Result<std::unique_ptr<Connection>> connection = Connection::open(
      options_, "sink", clock_, [this](const amqp_frame_t_& frame) { return on_frame(frame); });
  if (!connection) return fail(connection.error());
  DOVETAIL_TRY(open_publishing(**connection));
  connection_ = std::move(*connection);
  publish_open_ = true;
  return {};
}

Status RabbitmqSink::open_publishing(Connection& connection) {
  DOVETAIL_TRY(connection.open_channel(kPublishChannel));
  amqp_confirm_select_t select{};
  const Result<Answer> selected = connection.call(kPublishChannel, AMQP_CONFIRM_SELECT_METHOD,
                                                  &select, AMQP_CONFIRM_SELECT_OK_METHOD);
  if (!selected) return fail(selected.error());
  if (selected->refused != 0)
    return fail(Errc::unavailable, "RabbitMQ refused publisher confirms: " + selected->text);
  return {};
}

Status RabbitmqSink::submit(Events events) {
  if (connection_ == nullptr)
    return fail(Errc::unavailable, "RabbitMQ: the sink is not open; call open() first");
  if (!publish_open_) DOVETAIL_TRY(open_publishing(*connection_));
  publish_open_ = true;
  refused_now_.clear();
  careful_until_ = clock_.now() + kCarefulTimeMax;
  std::uint64_t tag = tracker_.add_batch(events.size());
  for (const Event* event : events) DOVETAIL_TRY(submit_one(*event, tag++));
  cut();
  return drive(Duration{0});
}

Status RabbitmqSink::submit_one(const Event& event, std::uint64_t tag) {
  arena_.clear();
  if (const Status written = writer_.write(event, arena_, message_); !written) {
    tracker_.resolve(tag, Outcome{Fate::rejected, 0, written.error().text});
    return {};
  }
  // The server's limit may have been raised, so a replayed event is sent in spite of it.
  const bool asks_again = event.replays > 0 && server_bytes_max_ > 0 &&
                          message_.payload.size() > server_bytes_max_ &&
                          message_.payload.size() <= options_.payload_bytes_max;
  if (std::string reason = why_too_large(); !asks_again && !reason.empty()) {
    tracker_.resolve(tag, Outcome{Fate::rejected, 0, std::move(reason)});
    return {};
  }
  const Destination to{exchange_ ? exchange_->fill(event, arena_) : std::string_view{},
                       routing_key_.fill(event, arena_)};
  const bool alone = asks_again || (!careful_.empty() && careful_.contains(event.id)) ||
                     (!suspects_.empty() && suspects_.contains(to.name()));
  if (alone) return publish_alone(event, to, tag);
  if (!publish_open_) {
    tracker_.resolve(tag, Outcome{Fate::again, 0, "not sent: RabbitMQ closed the channel"});
    return {};
  }
  return publish(event, to, tag);
}

std::string RabbitmqSink::why_too_large() const {
  const std::size_t limit = server_bytes_max_ == 0
                                ? options_.payload_bytes_max
                                : std::min(server_bytes_max_, options_.payload_bytes_max);
  if (message_.payload.size() <= limit) return {};
  return "the payload has " + std::to_string(message_.payload.size()) + " bytes, the limit is " +
         std::to_string(limit) +
         "; check payload_bytes_max and the server's max_message_size, or send a "
         "reference instead";
}

Publish RabbitmqSink::message_for(const Event& event, const Destination& to) const {
  return Publish{to.exchange, to.routing_key, &message_, key_header_, event.created_at};
}

Status RabbitmqSink::publish(const Event& event, const Destination& to, std::uint64_t tag) {
  if (!is_known(to)) {
    Result<std::string> missing = why_missing(to);
    if (!missing) return fail(missing.error());
    if (!missing->empty()) {
      tracker_.resolve(tag, Outcome{Fate::busy, 0, std::move(*missing)});
      return {};
    }
  }
  if (std::string reason = encoder_.append(chunk_, kPublishChannel, message_for(event, to),
                                           connection_->frame_bytes_max());
      !reason.empty()) {
    tracker_.resolve(tag, Outcome{Fate::rejected, 0, std::move(reason)});
    return {};
  }
  confirmations_.published(tag, event.id);
  if (chunk_.size() < kChunkBytes && !probing_) return {};
  cut();
  return drive(Duration{0});
}

bool RabbitmqSink::is_known(const Destination& to) {
  if (to.exchange.empty()) {
    if (!options_.declare) return true;  // a missing queue returns the message
    return known_.contains(to.name());
  }
  if (to.exchange == last_known_) return true;
  if (!known_.contains(std::string(to.exchange))) return false;
  last_known_ = to.exchange;
  return true;
}

Result<std::string> RabbitmqSink::why_missing(const Destination& to) {
  if (to.exchange.size() > kShortStringMax || to.routing_key.size() > kShortStringMax)
    return std::string();  // the encoder has a better text
  std::string name = to.exchange.empty() ? to.name() : std::string(to.exchange);
  if (const auto found = refused_now_.find(name); found != refused_now_.end())
    return found->second.reason;
  const Result<Answer> answer = look_for(to);
  if (!answer) return fail(answer.error());
  if (answer->refused == 0) {
    known_.insert(std::move(name));
    return std::string();
  }
  std::string reason = refusal(answer->refused, answer->text).reason;
  refused_now_[name] = Outcome{Fate::busy, 0, reason};
  return reason;
}

Result<Answer> RabbitmqSink::look_for(const Destination& to) {
  if (connection_->blocked()) return fail(blocked_error());
  if (!control_open_) {
    DOVETAIL_TRY(connection_->open_channel(kControlChannel));
    control_open_ = true;
  }
  Result<Answer> answer;
  if (to.exchange.empty()) {
    answer = declare_queue(*connection_, kControlChannel, to.routing_key, options_.queue_type);
  } else {
    amqp_exchange_declare_t declare{};
    declare.exchange = as_bytes(to.exchange);
    declare.type = amqp_cstring_bytes("topic");
    declare.passive = options_.declare ? 0 : 1;
    declare.durable = 1;
    answer = connection_->call(kControlChannel, AMQP_EXCHANGE_DECLARE_METHOD, &declare,
                               AMQP_EXCHANGE_DECLARE_OK_METHOD);
  }
  if (answer && answer->refused != 0) control_open_ = false;
  // It exists with other settings: respect them.
  if (answer && answer->refused == AMQP_PRECONDITION_FAILED) return Answer{};
  return answer;
}

Status RabbitmqSink::publish_alone(const Event& event, const Destination& to, std::uint64_t tag) {
  const std::string name = to.name();
  if (const auto found = refused_now_.find(name); found != refused_now_.end()) {
    careful_.erase(event.id);
    tracker_.resolve(tag, found->second);
    return {};
  }
  // Each of these waits for the server's answer, and the relay must not wait for long.
  if (clock_.now() > careful_until_) {
    tracker_.resolve(tag, Outcome{Fate::again, 0,
                                  "RabbitMQ closed the channel because of one of several messages; "
                                  "the relay sends them one by one"});
    return {};
  }
  Result<Outcome> outcome = try_alone(event, to);
  if (!outcome) return fail(outcome.error());
  careful_.erase(event.id);
  if (!alone_open_ && outcome->fate != Fate::rejected) {
    if (suspects_.size() >= kSuspectsMax) suspects_.clear();
    suspects_.insert(name);
    refused_now_[name] = *outcome;
  } else if (outcome->fate == Fate::confirmed) {
    suspects_.erase(name);
    if (message_.payload.size() > server_bytes_max_) server_bytes_max_ = 0;
  }
  tracker_.resolve(tag, std::move(*outcome));
  return {};
}

Result<Outcome> RabbitmqSink::try_alone(const Event& event, const Destination& to) {
  if (connection_->blocked()) return fail(blocked_error());
  if (!alone_open_) {
    DOVETAIL_TRY(connection_->open_channel(kAloneChannel));
    amqp_confirm_select_t select{};
    const Result<Answer> selected = connection_->call(kAloneChannel, AMQP_CONFIRM_SELECT_METHOD,
                                                      &select, AMQP_CONFIRM_SELECT_OK_METHOD);
    if (!selected) return fail(selected.error());
    alone_open_ = true;
  }
  std::string frames;
  if (std::string reason = encoder_.append(frames, kAloneChannel, message_for(event, to),
                                           connection_->frame_bytes_max());
      !reason.empty())
    return Outcome{Fate::rejected, 0, std::move(reason)};
  connection_->send(frames);
  alone_.emplace();
  const TimePoint deadline = clock_.now() + options_.request_timeout;
  while (!alone_->done) {
    const Duration left = deadline - clock_.now();
    if (left <= Duration{0})
      return fail(Errc::in_doubt, "RabbitMQ did not confirm a message in time; check the server");
    DOVETAIL_TRY(connection_->pump(left));
    if (connection_->blocked()) return fail(blocked_error());
  }
  Outcome outcome = std::move(alone_->outcome);
  alone_.reset();
  return outcome;
}

Result<bool> RabbitmqSink::collect(std::span<Outcome> outcomes, Duration timeout) {
  if (connection_ == nullptr)
    return fail(Errc::unavailable, "RabbitMQ: the sink is not open; call open() first");
  const TimePoint deadline = clock_.now() + timeout;
  for (bool tried = false; !tracker_.oldest_is_complete(); tried = true) {
    if (tracker_.unresolved() == 0) return false;  // nothing was submitted
    const Duration left = std::max(deadline - clock_.now(), Duration{0});
    if (tried && left == Duration{0}) return false;
    DOVETAIL_TRY(drive(left));
  }
  tracker_.take_oldest(outcomes);
  return true;
}

Error RabbitmqSink::blocked_error() const {
  return Error{Errc::unavailable, "RabbitMQ blocks publishers (" + connection_->blocked_reason() +
                                      "); check its memory and disk alarms"};
}

bool RabbitmqSink::is_held() const { return connection_->blocked() || (probing_ && probe_fed_); }

void RabbitmqSink::cut() {
  if (chunk_.empty()) return;
  chunks_.push_back(std::move(chunk_));
  chunk_.clear();
  if (spare_chunks_.empty()) return;
  chunk_ = std::move(spare_chunks_.back());
  spare_chunks_.pop_back();
}

// While the server blocks publishers, messages wait here and not in the connection: bytes on the
// connection are published later, even if the relay has already sent the event again.
void RabbitmqSink::feed() {
  while (!chunks_.empty() && !is_held() && connection_->unsent() < kUnsentBytesMax) {
    connection_->send(chunks_.front());
    if (spare_chunks_.size() < 8) spare_chunks_.push_back(std::move(chunks_.front()));
    chunks_.pop_front();
    probe_fed_ = true;
  }
}

// Writes and reads for at most `timeout`.
Status RabbitmqSink::drive(Duration timeout) {
  while (true) {
    feed();
    if (connection_->blocked_for() > options_.blocked_wait_max) return fail(blocked_error());
    if (chunks_.empty() || is_held()) return connection_->pump(timeout);
    const std::size_t before = connection_->unsent();
    DOVETAIL_TRY(connection_->pump(Duration{0}));
    if (connection_->unsent() >= before)
      return connection_->pump(timeout);  // until it accepts more
  }
}

Status RabbitmqSink::on_frame(const amqp_frame_t_& frame) {
  if (frame.frame_type == AMQP_FRAME_METHOD) return on_method(frame);
  if (frame.frame_type == AMQP_FRAME_HEADER) on_return(frame);
  return {};  // ignores the body of a returned message
}

Status RabbitmqSink::on_method(const amqp_frame_t_& frame) {
  switch (frame.payload.method.id) {
    case AMQP_BASIC_ACK_METHOD: {
      const auto& ack = method_of<amqp_basic_ack_t>(frame);
      return on_confirm(frame.channel, ack.delivery_tag, ack.multiple != 0, true);
    }
    case AMQP_BASIC_NACK_METHOD: {
      const auto& nack = method_of<amqp_basic_nack_t>(frame);
      return on_confirm(frame.channel, nack.delivery_tag, nack.multiple != 0, false);
    }
    case AMQP_BASIC_RETURN_METHOD: {
      const auto& back = method_of<amqp_basic_return_t>(frame);
      why_returned_ =
          "no RabbitMQ queue for the message: exchange \"" + std::string(as_view(back.exchange)) +
          "\", routing key \"" + std::string(as_view(back.routing_key)) + "\" (" +
          std::string(as_view(back.reply_text)) + "); check that the queue or its binding exists";
      // A declared queue may have been deleted; the next attempt declares it again.
      if (options_.declare) known_.clear();
      if (options_.declare) last_known_.clear();
      return {};
    }
    case AMQP_CHANNEL_CLOSE_METHOD: {
      const auto& close = method_of<amqp_channel_close_t>(frame);
      return on_close(frame.channel, close.reply_code, as_view(close.reply_text));
    }
    default:
      return {};
  }
}

Status RabbitmqSink::on_confirm(std::uint16_t channel, std::uint64_t number, bool multiple,
                                bool ack) {
  if (channel == kAloneChannel && alone_) {
    alone_->done = true;
    if (!alone_->why_returned.empty())
      alone_->outcome = Outcome{Fate::busy, 0, std::move(alone_->why_returned)};
    else if (ack)
      alone_->outcome = Outcome{Fate::confirmed};
    else
      alone_->outcome = Outcome{Fate::busy, 0,
                                "RabbitMQ refused the message (nack); check "
                                "whether its queue is full"};
    return {};
  }
  if (channel != kPublishChannel) return {};
  probing_ = false;
  const bool known =
      ack ? confirmations_.acked(number, multiple) : confirmations_.nacked(number, multiple);
  if (known) return {};
  return fail(Errc::in_doubt,
              "RabbitMQ confirmed message " + std::to_string(number) +
                  ", which was never published; check proxies between dovetail and the server");
}

void RabbitmqSink::on_return(const amqp_frame_t_& frame) {
  if (why_returned_.empty() || frame.payload.properties.class_id != AMQP_BASIC_CLASS) return;
  const auto& properties =
      *static_cast<const amqp_basic_properties_t*>(frame.payload.properties.decoded);
  if (frame.channel == kAloneChannel && alone_)
    alone_->why_returned = std::move(why_returned_);
  else if ((properties._flags & AMQP_BASIC_MESSAGE_ID_FLAG) != 0)
    confirmations_.returned(as_view(properties.message_id), why_returned_);
  why_returned_.clear();
}

// The outcome for a message when the server refuses it or its destination.
Outcome RabbitmqSink::refusal(int code, std::string_view text) {
  const std::string said = "RabbitMQ refused it: " + std::string(text) + "; check ";
  if (code == AMQP_NOT_FOUND)
    return {Fate::busy, 0, said + "the name of the exchange, or create it"};
  if (code == AMQP_ACCESS_REFUSED) return {Fate::busy, 0, said + "the user's permissions"};
  if (const std::size_t limit = size_limit_in(text); limit > 0) {
    server_bytes_max_ = limit;
    return {Fate::rejected, 0, said + "the server's max_message_size"};
  }
  return {Fate::failed, 0, said + "the exchange and the queues bound to it"};
}

Status RabbitmqSink::on_close(std::uint16_t channel, int code, std::string_view text) {
  amqp_channel_close_ok_t done{};
  connection_->send(channel, AMQP_CHANNEL_CLOSE_OK_METHOD, &done);
  Outcome outcome = refusal(code, text);
  if (channel == kAloneChannel) {
    alone_open_ = false;
    if (!alone_) return {};
    alone_->done = true;
    alone_->outcome = std::move(outcome);
    return {};
  }
  if (channel == kControlChannel) {
    control_open_ = false;
    return {};
  }
  // One of the messages in flight caused it. Sending them one by one shows which.
  publish_open_ = false;
  chunk_.clear();
  chunks_.clear();
  known_.clear();
  last_known_.clear();
  if (careful_.size() >= kSuspectsMax) careful_.clear();
  const std::vector<EventId> doubtful = confirmations_.give_up(
      Outcome{Fate::again, 0, "RabbitMQ closed the channel: " + std::string(text)});
  careful_.insert(doubtful.begin(), doubtful.end());
  return {};
}

}  // namespace dovetail::rabbitmq

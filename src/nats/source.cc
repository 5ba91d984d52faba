#include "nats/source.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "host/host.h"

namespace dovetail::nats {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kHoldCheck = milliseconds(100);
constexpr Duration kHoldCheckAfterNews = milliseconds(5);
constexpr Duration kAskBackAgain = seconds(1);

// The event's own id: for a replayed event the sink appends a colon and a number.
std::string_view without_replay(std::string_view id) {
  const std::string_view own = id.substr(0, std::min(id.find(':'), id.size()));
  return own.size() < id.size() && EventId::parse(own) ? own : id;
}
constexpr std::string_view kAck = "+ACK";
constexpr std::string_view kNak = "-NAK";
constexpr std::string_view kPatience = "+WPI";

std::int64_t number_of(std::string_view text, std::int64_t other) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && !text.empty() && end == text.data() + text.size() ? number : other;
}

}  // namespace

NatsSource::NatsSource(Options options, Clock& clock)
    : options_(std::move(options)),
      clock_(clock),
      reader_(options_.foreign, kNatsDialect),
      handler_([this](const Frame& frame) { on_frame(frame); }) {}

NatsSource::~NatsSource() {
  if (!connection_.is_open()) return;
  for (const auto& [sequence, held] : held_) connection_.publish(held.reply, {}, kNak);
  for (const auto& [sequence, given] : given_)
    if (!given.settled) connection_.publish(given.reply, {}, kNak);
  (void)connection_.write();
}

void NatsSource::forget() {
  held_.clear();
  held_bytes_ = 0;
  given_.clear();
  settled_.clear();
  last_settled_reply_.clear();
  asked_ = 0;
  caught_up_ = false;
  catching_up_ = false;
  holding_ = false;
  is_shared_ = false;
  lost_.reset();
}

Status NatsSource::open() {
  jetstream_.reset();
  connection_ = Connection();
  forget();
  Result<Connection> connection = Connection::open(options_, opened_++);
  if (!connection) return fail(connection.error());
  connection_ = std::move(*connection);
  jetstream_.emplace(connection_, options_.domain, options_.request_timeout);
  Result<Consumer> consumer = find_consumer(*jetstream_, options_, connection_.server());
  if (!consumer) return fail(consumer.error());
  consumer_ = std::move(*consumer);
  next_delivery_ = consumer_.state.delivered_consumer + 1;
  patience_at_ = clock_.now() + consumer_.ack_wait / 3;
  if (consumer_.state.ack_pending == 0) return {};
  hold();
  return ask_back();
}

Status NatsSource::read(Batch& out, const Limits& limits, std::stop_token stop) {
  const std::stop_callback wake(stop, [this] { connection_.wake(); });
  const TimePoint end = clock_.now() + limits.wait_max;
  Duration wait{0};
  while (true) {
    DOVETAIL_TRY(pump(wait));
    ask_for_patience();
    if (holding_) DOVETAIL_TRY(release_when_complete());
    if (!holding_) give(out, limits);
    DOVETAIL_TRY(ask_for_more());
    if (!out.empty() || stop.stop_requested()) break;
    const TimePoint now = clock_.now();
    // Even without a wait, read() returns messages that are there. So it waits for the end of this
    // pull.
    if (now >= end && !catching_up_) break;
    wait = catching_up_ ? options_.request_timeout : end - now;
    if (holding_) wait = std::min(wait, has_news_ ? kHoldCheckAfterNews : kHoldCheck);
    wait = std::min<Duration>(wait, seconds(1));
  }
  return connection_.write();
}

Status NatsSource::pump(Duration timeout) {
  DOVETAIL_TRY(connection_.pump(timeout, handler_));
  if (lost_) return fail(*lost_);
  return {};
}

void NatsSource::on_frame(const Frame& frame) {
  if (frame.kind == Frame::Kind::error) {
    lost_ =
        Error{Errc::unavailable, "the NATS server refused a request: " + std::string(frame.text) +
                                     "; check the user's permissions"};
    return;
  }
  AckSubject ack;
  if (parse_ack_subject(frame.reply, ack)) return on_message(frame, ack);
  if (!frame.subject.starts_with(connection_.inbox())) return;
  const std::string_view name = frame.subject.substr(connection_.inbox().size());
  if (name == "pull") return on_status(frame);
  if (name.starts_with('q')) answered_ = static_cast<std::uint64_t>(number_of(name.substr(1), 0));
}

void NatsSource::on_message(const Frame& frame, const AckSubject& ack) {
  if (asked_ > 0) --asked_;
  if (asked_ == 0) catching_up_ = false;
  has_news_ = true;
  answer_by_ = clock_.now() + options_.long_poll + options_.request_timeout;
  // The deliveries in between went to a connection that is gone.
  if (ack.consumer_sequence > next_delivery_) hold();
  next_delivery_ = std::max(next_delivery_, ack.consumer_sequence + 1);
  if (const auto given = given_.find(ack.stream_sequence); given != given_.end()) {
    given->second.reply = frame.reply;  // a second copy of an event in work
    return;
  }
  Held& held = held_[ack.stream_sequence];
  held.reply = frame.reply;
  if (!held.subject.empty()) return;
  held.subject = frame.subject;
  held.bytes.reserve(frame.headers.size() + frame.payload.size());
  held.bytes += frame.headers;
  held.bytes += frame.payload;
  held.header_size = frame.headers.size();
  held.time_ns = ack.time_ns;
  held_bytes_ += held.bytes.size();
}

// The end of a pull that brought fewer messages than requested.
void NatsSource::on_status(const Frame& frame) {
  if (frame.headers.empty() || !parse_headers(frame.headers, block_)) return;
  if (block_.status == 100) return;  // heartbeat
  catching_up_ = false;
  answer_by_ = clock_.now() + options_.long_poll + options_.request_timeout;
  const std::int64_t left = number_of(find_header(block_.headers, "Nats-Pending-Messages"), -1);
  const bool is_known = block_.status == 404 || block_.status == 408 || left >= 0;
  if (!is_known) {
    lost_ = Error{Errc::unavailable, "the consumer " + consumer_.name +
                                         " cannot be read: " + std::to_string(block_.status) + " " +
                                         std::string(block_.description) + "; check its settings"};
    return;
  }
  asked_ = left >= 0 ? std::max<std::int64_t>(0, asked_ - left) : 0;
}

void NatsSource::pull(bool long_poll) {
  const std::int64_t batch = static_cast<std::int64_t>(options_.prefetch) - asked_;
  const std::size_t bytes =
      std::max(options_.prefetch_bytes, connection_.server().max_payload + (16U << 10U));
  std::string body = "{\"batch\":" + std::to_string(batch);
  body += ",\"max_bytes\":" + std::to_string(bytes);
  if (long_poll) {
    const auto expires =
        std::chrono::duration_cast<std::chrono::nanoseconds>(options_.long_poll).count();
    body += ",\"expires\":" + std::to_string(expires) + "}";
  } else {
    body += ",\"no_wait\":true}";
    catching_up_ = true;
  }
  connection_.publish(
      jetstream_->prefix() + "CONSUMER.MSG.NEXT." + consumer_.stream + "." + consumer_.name,
      connection_.inbox() + "pull", body);
  asked_ += batch;
  answer_by_ =
      clock_.now() + (long_poll ? options_.long_poll : Duration{0}) + options_.request_timeout;
}

// Keeps a pull open while there is room. After an idle time, the first pull does not wait, so its
// end shows that the stream has no more messages.
Status NatsSource::ask_for_more() {
  if (asked_ > 0 && clock_.now() > answer_by_)
    return fail(Errc::unavailable,
                "the consumer " + consumer_.name +
                    " does not answer; check that it exists and that the server runs");
  const bool has_room = held_bytes_ < options_.prefetch_bytes;
  const bool runs_low = asked_ <= static_cast<std::int64_t>(options_.prefetch / 2);
  if (!has_room || !runs_low || catching_up_) return connection_.write();
  const bool was_idle = asked_ == 0 && !caught_up_;
  pull(!was_idle);
  caught_up_ = was_idle;
  return connection_.write();
}

void NatsSource::give(Batch& out, const Limits& limits) {
  while (!held_.empty() && out.size() < limits.events_max) {
    const auto first = held_.begin();
    const std::size_t bytes = first->second.bytes.size() + first->second.subject.size();
    if (!out.empty() && out.bytes() + bytes > limits.bytes_max) return;
    give_one(out, first->first, first->second);
    given_[first->first].reply = std::move(first->second.reply);
    held_bytes_ -= first->second.bytes.size();
    held_.erase(first);
  }
}

void NatsSource::give_one(Batch& out, std::int64_t sequence, const Held& held) {
  const std::string_view bytes = held.bytes;
  parse_headers(bytes.substr(0, held.header_size), block_);
  ReceivedMessage message;
  message.topic = held.subject;
  message.payload = bytes.substr(held.header_size);
  message.position = sequence;
  message.native_id = without_replay(find_header(block_.headers, kIdHeader));
  std::string key;
  if (options_.key_in_subject && held.subject.find('.') != std::string::npos) {
    const std::size_t dot = held.subject.rfind('.');
    key = from_token(std::string_view(held.subject).substr(dot + 1));
    message.topic = message.topic.substr(0, dot);
  }
  message.key = key;
  headers_.clear();
  const ForeignNames& foreign = options_.foreign;
  for (const MessageHeader& header : block_.headers) {
    if (!options_.key_header.empty() && header.name == options_.key_header) {
      message.key = header.value;
      continue;
    }
    // A "Nats-" header is for the server and not part of the event, unless the configuration names
    // it.
    const bool is_named = header.name == foreign.id || header.name == foreign.type ||
                          header.name == foreign.aggregate_type ||
                          header.name == foreign.aggregate_id;
    if (is_named || !header.name.starts_with("Nats-")) headers_.push_back(header);
  }
  message.headers = headers_;
  const std::string place = consumer_.stream + "/" + std::to_string(sequence);
  message.place = place;
  message.time = WallTime(
      std::chrono::duration_cast<WallTime::duration>(std::chrono::nanoseconds(held.time_ns)));
  reader_.read(message, new_event_id(), out);
}

Status NatsSource::settle(const Batch& batch, std::span<const Settled>) {
  for (const Event& event : batch.events()) {
    const auto found = given_.find(event.position);
    if (found == given_.end() || found->second.settled) continue;
    found->second.settled = true;
    settled_.push_back(event.position);
    connection_.publish(found->second.reply, {}, kAck);
    last_settled_reply_ = found->second.reply;
  }
  ask_for_patience();
  return pump(Duration{0});
}

// Acknowledges the last event again, with a reply: the server has then processed all earlier ones.
Status NatsSource::flush() {
  ask_for_patience();
  if (settled_.empty()) return {};
  const std::uint64_t number = ++flushes_;
  connection_.publish(last_settled_reply_, connection_.inbox() + "q" + std::to_string(number),
                      kAck);
  const TimePoint end = clock_.now() + options_.request_timeout;
  while (answered_ < number) {
    const Duration left = end - clock_.now();
    if (left <= Duration{0})
      return fail(
          Errc::unavailable,
          "the NATS server did not confirm acknowledgements in time; check its log and load");
    DOVETAIL_TRY(pump(left));
  }
  for (const std::int64_t sequence : settled_) given_.erase(sequence);
  settled_.clear();
  return {};
}

// Extends the acknowledgement time of events in work.
void NatsSource::ask_for_patience() {
  const TimePoint now = clock_.now();
  if (now < patience_at_) return;
  patience_at_ = now + consumer_.ack_wait / 3;
  for (const auto& [sequence, held] : held_) connection_.publish(held.reply, {}, kPatience);
  for (const auto& [sequence, given] : given_)
    if (!given.settled) connection_.publish(given.reply, {}, kPatience);
}

void NatsSource::hold() {
  if (holding_ || is_shared_) return;
  holding_ = true;
  has_news_ = true;
  // The server may still send returned messages to a dead connection until its last pull expires.
  // Messages that are missing some time later belong to a live reader.
  const Duration patience = can_ask_back() ? options_.long_poll : 2 * consumer_.ack_wait;
  hold_until_ = clock_.now() + patience + seconds(5);
  hold_checked_at_ = TimePoint{};
  asked_back_at_ = clock_.now();
}

// All delivered but unacknowledged messages must be here before any is given out.
Status NatsSource::release_when_complete() {
  const TimePoint now = clock_.now();
  if (now >= hold_until_) {
    holding_ = false;
    is_shared_ = true;
    return {};
  }
  if (now - hold_checked_at_ < (has_news_ ? kHoldCheckAfterNews : kHoldCheck)) return {};
  hold_checked_at_ = now;
  has_news_ = false;
  // Counted before the server counts: a message in between is in its count, not in ours.
  const std::size_t ours = unsettled();
  const Result<ConsumerState> state = ask_state(*jetstream_, consumer_, handler_);
  if (!state) return fail(state.error());
  if (lost_) return fail(*lost_);
  consumer_.state = *state;
  if (state->ack_pending <= static_cast<std::int64_t>(ours)) {
    holding_ = false;
    return {};
  }
  if (clock_.now() - asked_back_at_ < kAskBackAgain) return {};
  return ask_back();
}

// A filtered consumer may have too many numbers to return; then the server's timeout does it.
bool NatsSource::can_ask_back() const {
  return consumer_.state.delivered_stream - consumer_.state.acked_stream <=
         4 * static_cast<std::int64_t>(options_.ack_pending_max);
}

// Returns messages of a dead reader, without waiting for the server's timeout. The server ignores
// numbers that need no return.
Status NatsSource::ask_back() {
  asked_back_at_ = clock_.now();
  if (!can_ask_back()) return {};
  const ConsumerState& state = consumer_.state;
  for (std::int64_t sequence = state.acked_stream + 1; sequence <= state.delivered_stream;
       ++sequence) {
    if (held_.contains(sequence) || given_.contains(sequence)) continue;
    connection_.publish(consumer_.ack_subject(sequence), {}, kNak);
  }
  return connection_.write();
}

std::unique_ptr<Source> make_source(Options options, Duration call_max, Clock& clock) {
  options.request_timeout = std::min(options.request_timeout, call_max);
  return std::make_unique<NatsSource>(std::move(options), clock);
}

}  // namespace dovetail::nats

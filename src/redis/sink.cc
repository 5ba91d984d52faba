#include "redis/sink.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/check.h"
#include "redis/entry_id.h"
#include "redis/errors.h"

namespace dovetail::redis {

namespace {

// Timeout of one WAIT. For slower replicas the sink sends another WAIT, until the relay gives up.
constexpr std::uint64_t kReplicaWaitMs = 1000;

}  // namespace

RedisSink::RedisSink(Options options, Clock& clock)
    : options_(std::move(options)),
      clock_(clock),
      field_bytes_max_(std::numeric_limits<std::size_t>::max()) {}

void RedisSink::forget() {
  connection_.close();
  tracker_.clear();
  expected_.clear();
  refusal_.clear();
  lost_.reset();
  batches_ = 0;
}

Status RedisSink::open() {
  forget();
  DOVETAIL_TRY(check(options_));
  if (!writer_) {
    Result<MessageWriter> writer = MessageWriter::make(options_.message, kRedisDialect);
    if (!writer) return fail(writer.error());
    writer_ = std::move(*writer);
  }
  Result<Connection> connection = Connection::open(options_, clock_);
  if (!connection) return fail(connection.error());
  connection_ = std::move(*connection);
  DOVETAIL_TRY(check_writable());
  DOVETAIL_TRY(check_replicas());
  return learn_limit();
}

Status RedisSink::check_writable() {
  // Never adds anything, because this id is invalid. But a server that accepts no writes reports
  // that before it checks the id.
  connection_.command({"XADD", "dovetail:probe", "0-0", "probe", "1"});
  const Result<Reply> reply = connection_.take_within(options_.connect_timeout);
  if (!reply) return fail(reply.error());
  const std::string_view said = reply->value().text();
  if (reply->value().is_error() && reach_of(said) == Reach::server)
    return fail(server_error("redis: cannot add events", said));
  return {};
}

// On a connection without writes, WAIT returns the number of all connected replicas.
Status RedisSink::check_replicas() {
  if (options_.wait_replicas == 0) return {};
  const std::string wanted = std::to_string(options_.wait_replicas);
  const Result<Reply> reply = connection_.ask({"WAIT", wanted, "1"});
  if (!reply) return fail(reply.error());
  const std::int64_t there = reply->value().integer();
  if (there >= options_.wait_replicas) return {};
  return fail(Errc::unavailable,
              "redis: " + std::to_string(there) + " of " + wanted +
                  " replicas are connected; check the replicas and wait_replicas");
}

// The server closes the connection over a field that is too large, so the sink rejects it first. If
// the server does not report its limit, only the options' limit applies.
Status RedisSink::learn_limit() {
  connection_.command({"CONFIG", "GET", "proto-max-bulk-len"});
  const Result<Reply> reply = connection_.take_within(options_.connect_timeout);
  if (!reply) return fail(reply.error());
  const std::int64_t limit = reply->value().named("proto-max-bulk-len").integer();
  if (limit > 0) field_bytes_max_ = static_cast<std::size_t>(limit);
  return {};
}

Status RedisSink::submit(Events events) {
  if (!connection_.is_open() && !lost_)
    lost_ = Error{Errc::unavailable, "redis: not connected; call open() first"};
  if (batches_ == 0 && lost_) return fail(*lost_);
  if (batches_ == 0 && !refusal_.empty()) return fail(Errc::unavailable, refusal_);
  // The server's limit may have been raised since the event was parked: a replay asks again.
  const bool replays = std::any_of(events.begin(), events.end(),
                                   [](const Event* event) { return event->replays > 0; });
  if (replays && batches_ == 0) DOVETAIL_TRY(learn_limit());
  const std::uint64_t first = tracker_.add_batch(events.size());
  ++batches_;
  // Collects events in flight first, so that no confirmed event is sent again.
  if (lost_) return {};
  if (!refusal_.empty()) {
    if (!events.empty())
      tracker_.resolve_through(first + events.size() - 1, Outcome{Fate::busy, 0, refusal_});
    return {};
  }
  const std::size_t before = expected_.size();
  for (std::size_t i = 0; i < events.size(); ++i) write(*events[i], first + i);
  if (options_.wait_replicas > 0 && expected_.size() > before)
    write_wait(first + events.size() - 1);
  pump();
  return {};
}

// Receives and sends without waiting. Receives first: replies that arrived before the connection
// was lost still count.
void RedisSink::pump() {
  if (lost_) return;
  Status done = take_replies();
  if (done) done = connection_.send();
  if (!done) lost_ = done.error();
}

void RedisSink::write(const Event& event, std::uint64_t tag) {
  arena_.clear();
  if (const Status written = writer_->write(event, arena_, message_); !written)
    return tracker_.resolve(tag, Outcome{Fate::rejected, 0, written.error().text});
  if (std::string reason = why_refused(message_); !reason.empty())
    return tracker_.resolve(tag, Outcome{Fate::rejected, 0, std::move(reason)});
  const std::size_t fields =
      message_.headers.size() + 1U + static_cast<std::size_t>(!message_.key.empty());
  connection_.begin(3 + 2 * fields + static_cast<std::size_t>(!options_.declare));
  connection_.add("XADD");
  connection_.add(message_.topic);
  if (!options_.declare) connection_.add("NOMKSTREAM");
  connection_.add("*");
  if (!message_.key.empty()) {
    connection_.add(options_.key_field);
    connection_.add(message_.key);
  }
  std::size_t largest = message_.payload.size();
  for (const MessageHeader& header : message_.headers) {
    connection_.add(header.name);
    connection_.add(header.value);
    largest = std::max(largest, header.value.size());
  }
  connection_.add(options_.payload_field);
  connection_.add(message_.payload);
  expected_.push_back(Expected{tag, std::max<std::size_t>(largest, 1), event.topic});
}

std::string RedisSink::why_refused(const Message& message) const {
  if (message.topic.empty()) return "the event has no topic; check the relay's topic template";
  const std::size_t limit = std::min(options_.payload_bytes_max, field_bytes_max_);
  if (message.payload.size() > limit)
    return "the payload has " + std::to_string(message.payload.size()) + " bytes, the limit is " +
           std::to_string(limit) +
           "; check payload_bytes_max and the server's proto-max-bulk-len, or send a reference "
           "instead";
  for (const MessageHeader& header : message.headers)
    if (header.name == options_.payload_field || header.name == options_.key_field)
      return "the header \"" + std::string(header.name) +
             "\" has the name of a field of the entry; rename the header, or change payload_field "
             "or "
             "key_header";
  return {};
}

void RedisSink::write_wait(std::uint64_t tag) {
  connection_.begin(3);
  connection_.add("WAIT");
  connection_.add_number(options_.wait_replicas);
  connection_.add_number(kReplicaWaitMs);
  expected_.push_back(Expected{tag});
}

Result<bool> RedisSink::collect(std::span<Outcome> outcomes, Duration timeout) {
  if (batches_ == 0) return false;
  const TimePoint end = clock_.now() + timeout;
  while (true) {
    pump();
    if (tracker_.oldest_is_complete()) break;
    if (lost_) {
      const Error error = *lost_;
      forget();
      lost_ = error;
      return fail(error);
    }
    const TimePoint now = clock_.now();
    if (now >= end) return false;
    if (const Status waited = connection_.wait(end - now); !waited) lost_ = waited.error();
  }
  tracker_.take_oldest(outcomes);
  --batches_;
  return true;
}

Status RedisSink::take_replies() {
  while (true) {
    const Result<Reply> reply = connection_.take();
    if (!reply) return fail(reply.error());
    if (!*reply) return {};
    if (expected_.empty()) {
      connection_.close();
      return fail(
          server_error("redis: unexpected reply; check proxies between dovetail and the server",
                       reply->value().text()));
    }
    const Expected expected = expected_.front();
    expected_.pop_front();
    DOVETAIL_TRY(resolve(expected, reply->value()));
  }
}

Status RedisSink::resolve(const Expected& expected, Value reply) {
  if (reply.is_error()) return resolve_error(expected, reply.text());
  if (expected.largest_field == 0) {
    if (reply.integer() >= options_.wait_replicas) {
      tracker_.resolve_through(expected.tag, Outcome{Fate::confirmed});
      return {};
    }
    write_wait(expected.tag);
    return connection_.send();
  }
  if (reply.is_nil()) {
    tracker_.resolve(expected.tag,
                     Outcome{Fate::busy, 0,
                             "the stream \"" + std::string(expected.topic) +
                                 "\" does not exist; create it, or set declare = true"});
    return {};
  }
  if (!EntryId::parse(reply.text())) {
    connection_.close();
    return fail(
        Errc::unavailable,
        "redis: the answer to XADD has no id; check proxies between dovetail and the server");
  }
  if (options_.wait_replicas == 0) tracker_.resolve(expected.tag, Outcome{Fate::confirmed});
  return {};
}

Status RedisSink::resolve_error(const Expected& expected, std::string_view reply) {
  if (expected.largest_field == 0) {
    connection_.close();
    return fail(server_error("redis: WAIT failed", reply));
  }
  switch (reach_of(reply)) {
    case Reach::server:
      refusal_ = server_error("redis: cannot add events", reply).text;
      tracker_.resolve(expected.tag, Outcome{Fate::busy, 0, refusal_});
      break;
    case Reach::stream:
    case Reach::unknown:
      tracker_.resolve(
          expected.tag,
          Outcome{reach_of(reply) == Reach::stream ? Fate::busy : Fate::failed, 0,
                  "stream \"" + std::string(expected.topic) + "\": " + describe(reply)});
      break;
    case Reach::event:
      // The server then closes the connection; events of this size are not sent again.
      field_bytes_max_ = std::min(field_bytes_max_, expected.largest_field - 1);
      tracker_.resolve(expected.tag, Outcome{Fate::rejected, 0, describe(reply)});
      break;
  }
  return {};
}

}  // namespace dovetail::redis

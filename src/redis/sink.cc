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
// The server does nothing else while a window runs.
constexpr std::size_t kWindowEvents = 1000;
constexpr std::size_t kWindowBytes = 1 << 20;

// "EXECABORT Transaction discarded because of: OOM ..." without the beginning.
std::string_view cause_of(std::string_view reply) {
  constexpr std::string_view kBecause = "because of: ";
  const std::size_t at = reply.find(kBecause);
  return reply.starts_with("EXECABORT ") && at != std::string_view::npos
             ? reply.substr(at + kBecause.size())
             : reply;
}

std::uint64_t channel_of(std::string_view stream) {
  std::uint64_t hash = 14695981039346656037U;
  for (const char c : stream) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return hash;
}

}  // namespace

RedisSink::RedisSink(Options options, Clock& clock)
    : options_(std::move(options)),
      clock_(clock),
      field_bytes_max_(std::numeric_limits<std::size_t>::max()) {}

void RedisSink::forget() {
  connection_.close();
  tracker_.clear();
  order_.clear();
  queue_.clear();
  window_.clear();
  in_vain_.clear();
  queued_ = window_bytes_ = 0;
  in_transaction_ = multi_is_out_ = false;
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
  DOVETAIL_TRY(learn_limit());
  const Result<Reply> multi = connection_.ask({"MULTI"});
  if (!multi) return fail(multi.error());
  in_transaction_ = true;
  return {};
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
  if (replays && batches_ == 0) {
    DOVETAIL_TRY(leave_transaction());
    DOVETAIL_TRY(learn_limit());
  }
  const std::uint64_t first = tracker_.add_batch(events.size());
  order_.add_batch(first, events);
  ++batches_;
  last_tag_ = first + events.size() - 1;
  // Collects events in flight first, so that no confirmed event is sent again.
  if (lost_) return {};
  if (!refusal_.empty()) {
    for (std::uint64_t tag = first; tag <= last_tag_; ++tag)
      come_back(tag, Outcome{Fate::busy, 0, refusal_});
    return {};
  }
  for (std::uint64_t tag = first; tag <= last_tag_; ++tag) queue_.push_back(tag);
  pump();
  return {};
}

Status RedisSink::leave_transaction() {
  while (multi_is_out_ && !lost_) {
    DOVETAIL_TRY(connection_.wait(options_.connect_timeout));
    DOVETAIL_TRY(take_replies());
  }
  if (!std::exchange(in_transaction_, false)) return {};
  const Result<Reply> reply = connection_.ask({"DISCARD"});
  if (!reply) return fail(reply.error());
  return {};
}

// Receives and sends without waiting. Receives first: replies that arrived before the connection
// was lost still count.
void RedisSink::pump() {
  if (lost_) return;
  Status done = take_replies();
  if (done) {
    fill_window();
    done = connection_.send();
  }
  if (!done) lost_ = done.error();
}

void RedisSink::fill_window() {
  if (!window_.empty() || !refusal_.empty()) return;
  if (!in_transaction_) {
    if (multi_is_out_ || (in_vain_.empty() && queue_.empty() && tracker_.unresolved() == 0)) return;
    connection_.command({"MULTI"});
    expected_.push_back(Answer::multi);
    multi_is_out_ = true;
    return;
  }
  window_bytes_ = 0;
  for (const Sent& sent : std::exchange(in_vain_, {})) {
    std::string why;
    if (order_.is_blocked(sent.tag))
      come_back(sent.tag, Outcome{Fate::again, 0, "not sent: an earlier event of its key failed"});
    else if (compose(order_.event_of(sent.tag), why))
      write(sent);
    else
      come_back(sent.tag, Outcome{Fate::rejected, 0, std::move(why)});
  }
  while (window_.size() < kWindowEvents && window_bytes_ < kWindowBytes) {
    if (const std::optional<std::uint64_t> due = order_.take_due()) {
      place(*due);
    } else if (!queue_.empty()) {
      place(queue_.front());
      queue_.pop_front();
    } else {
      break;
    }
  }
  if (window_.empty()) return;
  connection_.command({"EXEC"});
  expected_.push_back(Answer::exec);
  if (options_.wait_replicas > 0) write_wait();
  connection_.command({"MULTI"});
  expected_.push_back(Answer::multi);
  in_transaction_ = false;
  multi_is_out_ = true;
}

// What can never be sent is refused when its turn comes.
void RedisSink::place(std::uint64_t tag) {
  const Event& event = order_.event_of(tag);
  std::string why;
  const bool can_go = compose(event, why);
  switch (order_.place(tag, can_go ? channel_of(message_.topic) : KeyOrder::own_channel(tag))) {
    case KeyOrder::Turn::now:
      if (can_go) return write(Sent{tag, 0, event.topic, {}});
      return come_back(tag, Outcome{Fate::rejected, 0, std::move(why)});
    case KeyOrder::Turn::later:
      return;
    case KeyOrder::Turn::never:
      return come_back(tag,
                       Outcome{Fate::again, 0, "not sent: an earlier event of its key failed"});
  }
}

void RedisSink::come_back(std::uint64_t tag, Outcome outcome) {
  order_.failed(tag);
  tracker_.resolve(tag, std::move(outcome));
}

// Fills message_.
bool RedisSink::compose(const Event& event, std::string& why_not) {
  arena_.clear();
  if (const Status written = writer_->write(event, arena_, message_); !written)
    why_not = written.error().text;
  else
    why_not = why_refused(message_);
  return why_not.empty();
}

void RedisSink::write(Sent sent) {
  const std::size_t fields =
      message_.headers.size() + 1U + static_cast<std::size_t>(!message_.key.empty());
  connection_.begin(3 + 2 * fields + static_cast<std::size_t>(!options_.declare));
  connection_.add("XADD");
  connection_.add(message_.topic);
  if (!options_.declare) connection_.add("NOMKSTREAM");
  connection_.add("*");
  if (!message_.key.empty()) {
    connection_.add(options_.key_header);
    connection_.add(message_.key);
  }
  std::size_t largest = message_.payload.size();
  for (const MessageHeader& header : message_.headers) {
    connection_.add(header.name);
    connection_.add(header.value);
    largest = std::max(largest, header.value.size());
    window_bytes_ += header.name.size() + header.value.size();
  }
  connection_.add(options_.payload_field);
  connection_.add(message_.payload);
  window_bytes_ += message_.payload.size();
  expected_.push_back(Answer::queued);
  sent.largest_field = std::max<std::size_t>(largest, 1);
  sent.refusal.clear();
  window_.push_back(std::move(sent));
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
    if (header.name == options_.payload_field || header.name == options_.key_header)
      return "the header \"" + std::string(header.name) +
             "\" has the name of a field of the entry; rename the header, or change payload_field "
             "or "
             "key_header";
  return {};
}

void RedisSink::write_wait() {
  connection_.begin(3);
  connection_.add("WAIT");
  connection_.add_number(options_.wait_replicas);
  connection_.add_number(kReplicaWaitMs);
  expected_.push_back(Answer::wait);
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
  order_.collected();
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
    const Answer expected = expected_.front();
    expected_.pop_front();
    DOVETAIL_TRY(take_answer(expected, reply->value()));
  }
}

Status RedisSink::take_answer(Answer expected, Value reply) {
  switch (expected) {
    case Answer::multi:
      multi_is_out_ = false;
      in_transaction_ = !reply.is_error();
      if (reply.is_error()) refuse_all(reply.text());
      return {};
    case Answer::queued: {
      Sent& sent = window_[queued_++];
      if (!reply.is_error()) return {};
      sent.refusal = reply.text();
      // The server then closes the connection; events of this size are not sent again.
      if (reach_of(reply.text()) == Reach::event)
        field_bytes_max_ = std::min(field_bytes_max_, sent.largest_field - 1);
      return {};
    }
    case Answer::exec:
      return take_window(reply);
    case Answer::wait:
      return take_wait(reply);
    case Answer::discard:
      return {};
  }
  return {};
}

Status RedisSink::take_window(Value reply) {
  queued_ = 0;
  if (reply.is_error()) return resend_window(reply.text());
  if (reply.size() != window_.size()) {
    connection_.close();
    return fail(Errc::unavailable,
                "redis: the answer to EXEC lacks events; check proxies between dovetail and the "
                "server");
  }
  for (std::size_t i = 0; i < window_.size(); ++i) DOVETAIL_TRY(resolve(window_[i], reply.at(i)));
  if (options_.wait_replicas == 0) window_.clear();
  return {};
}

// The window did not run. The events that the server names come back, the others go again.
Status RedisSink::resend_window(std::string_view reply) {
  bool is_named = false;
  std::string_view server_says = reach_of(cause_of(reply)) == Reach::server ? cause_of(reply) : "";
  for (const Sent& sent : window_) {
    is_named = is_named || !sent.refusal.empty();
    if (!sent.refusal.empty() && reach_of(sent.refusal) == Reach::server)
      server_says = sent.refusal;
  }
  if (!server_says.empty()) {
    refuse_all(server_says);
  } else if (is_named) {
    for (Sent& sent : window_) {
      if (sent.refusal.empty())
        in_vain_.push_back(std::move(sent));
      else
        resolve_error(sent, sent.refusal);
    }
  } else {
    connection_.close();
    return fail(server_error("redis: a window of events failed", reply));
  }
  window_.clear();
  return {};
}

// The server takes nothing: all events come back.
void RedisSink::refuse_all(std::string_view reply) {
  refusal_ = server_error("redis: cannot add events", reply).text;
  const std::size_t open = tracker_.unresolved();
  if (open == 0) return;
  for (std::uint64_t tag = order_.first_tag(); tag <= last_tag_; ++tag) order_.failed(tag);
  tracker_.resolve_through(last_tag_, Outcome{Fate::busy, 0, refusal_});
  queue_.clear();
  in_vain_.clear();
}

Status RedisSink::take_wait(Value reply) {
  if (reply.is_error()) {
    connection_.close();
    return fail(server_error("redis: WAIT failed", reply.text()));
  }
  // A window that did not run.
  if (window_.empty()) return {};
  if (reply.integer() < options_.wait_replicas) {
    // WAIT does not wait in the transaction that is open by then.
    connection_.command({"DISCARD"});
    expected_.push_back(Answer::discard);
    write_wait();
    connection_.command({"MULTI"});
    expected_.push_back(Answer::multi);
    return connection_.send();
  }
  for (const Sent& sent : window_) {
    order_.confirmed(sent.tag);
    tracker_.resolve(sent.tag, Outcome{Fate::confirmed});
  }
  window_.clear();
  return {};
}

Status RedisSink::resolve(const Sent& sent, Value reply) {
  if (reply.is_error()) {
    resolve_error(sent, reply.text());
  } else if (reply.is_nil()) {
    come_back(sent.tag, Outcome{Fate::busy, 0,
                                "the stream \"" + std::string(sent.topic) +
                                    "\" does not exist; create it, or set declare = true"});
  } else if (!EntryId::parse(reply.text())) {
    connection_.close();
    return fail(
        Errc::unavailable,
        "redis: the answer to XADD has no id; check proxies between dovetail and the server");
  } else if (options_.wait_replicas == 0) {
    order_.confirmed(sent.tag);
    tracker_.resolve(sent.tag, Outcome{Fate::confirmed});
  }
  return {};
}

void RedisSink::resolve_error(const Sent& sent, std::string_view reply) {
  const std::string text = "stream \"" + std::string(sent.topic) + "\": " + describe(reply);
  switch (reach_of(reply)) {
    case Reach::server:
      return refuse_all(reply);
    case Reach::stream:
      return come_back(sent.tag, Outcome{Fate::busy, 0, text});
    case Reach::unknown:
      return come_back(sent.tag, Outcome{Fate::failed, 0, text});
    case Reach::event:
      field_bytes_max_ = std::min(field_bytes_max_, sent.largest_field - 1);
      return come_back(sent.tag, Outcome{Fate::rejected, 0, describe(reply)});
  }
}

}  // namespace dovetail::redis

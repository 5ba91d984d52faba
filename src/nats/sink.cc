#include "nats/sink.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "core/message/json.h"
#include "nats/jetstream.h"

namespace dovetail::nats {

namespace {

// The servers' default limit for the line before a message.
constexpr std::size_t kPublishLineMax = 4096;
constexpr std::string_view kFirstHeaderLine = "NATS/1.0\r\n";
constexpr std::string_view kStreamHeader = "Nats-Expected-Stream";
constexpr std::string_view kLastIdHeader = "Nats-Expected-Last-Msg-Id";
constexpr int kAnotherLastId = 10070;  // than the one of Nats-Expected-Last-Msg-Id
constexpr std::size_t kWindowEvents = 2000;
constexpr std::size_t kStreamsMax = 10'000;
constexpr Duration kApart = std::chrono::seconds(5);

std::uint64_t channel_of(std::string_view stream) {
  std::uint64_t hash = 14695981039346656037U;
  for (const char c : stream) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return hash;
}

std::size_t header_size(std::string_view name, std::string_view value) {
  return name.size() + value.size() + 4;  // ": " and the line end
}

void append_header(std::string& out, std::string_view name, std::string_view value) {
  out += name;
  out += ": ";
  out += value;
  out += "\r\n";
}

bool parse_tag(std::string_view text, std::uint64_t& tag) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), tag);
  return error == std::errc{} && end == text.data() + text.size();
}

// The fate of an event when the stream answers with an error. `busy`: the cause is a state of the
// stream or the server, not the event.
Outcome outcome_of(const Json& error, const std::string& stream) {
  const auto number = static_cast<int>(error.get("err_code").number_or(0));
  const std::string text = "stream " + stream + ": " + error.get("description").text() + " (" +
                           std::to_string(number) + ")";
  constexpr int kMessageTooLarge = 10054;
  constexpr int kHeadersTooLarge = 10097;
  if (number == kMessageTooLarge || number == kHeadersTooLarge)
    return {Fate::rejected, 0, text + "; check the stream's max_msg_size"};
  if (text.find("per subject") != std::string::npos)
    return {Fate::busy, 0, text + "; check the stream's max_msgs_per_subject"};
  // A full stream, no leader, no resources. Their codes are 500 and above, except for an account
  // without space.
  constexpr int kAccountFull = 10002;
  if (number == kAccountFull || error.get("code").number_or(0) >= 500)
    return {Fate::busy, 0, text + "; check the limits of the stream and of the server"};
  constexpr int kAnotherStream = 10060;  // than the one of Nats-Expected-Stream
  constexpr int kSealed = 10109;
  if (number == kAnotherStream || number == kSealed)
    return {Fate::busy, 0, text + "; check which stream stores the subject"};
  return {Fate::failed, 0, text + "; check the settings of the stream"};
}

}  // namespace

NatsSink::NatsSink(Options options, Clock& clock)
    : options_(std::move(options)),
      clock_(clock),
      handler_([this](const Frame& frame) { on_frame(frame); }) {}

Status NatsSink::open() {
  tracker_.clear();
  order_.clear();
  queue_.clear();
  out_.clear();
  broken_.clear();
  unchained_.clear();
  flights_.clear();
  probes_.clear();
  lost_.reset();
  pings_ = 0;
  connection_ = Connection();
  if (!writer_) {
    Result<MessageWriter> writer = MessageWriter::make(options_.message, kNatsDialect);
    if (!writer) return fail(writer.error());
    writer_ = std::move(*writer);
  }
  Result<Connection> connection = Connection::open(options_, opened_++);
  if (!connection) return fail(connection.error());
  connection_ = std::move(*connection);
  pings_ = connection_.pongs();
  return {};
}

std::string_view NatsSink::subject_of(const Event& event, std::string& scratch) const {
  if (!options_.key_in_subject || event.aggregate_id.empty()) return event.topic;
  scratch = event.topic;
  scratch += '.';
  scratch += to_token(event.aggregate_id);
  return scratch;
}

// Rejects what cannot be sent. Fills message_ and duplicate_id_.
std::string NatsSink::why_refused(const Event& event, std::string_view subject) {
  arena_.clear();
  const Status written = writer_->write(event, arena_, message_);
  if (!written) return written.error().text;
  duplicate_id_ = message_.id;
  if (event.replays > 0) duplicate_id_ += ":" + std::to_string(event.replays);
  if (std::string why = why_no_subject(subject); !why.empty())
    return why + "; check the event's topic, or the relay's topic template";
  const bool carries_key =
      options_.message.format == MessageFormat::cloudevents && message_.key == event.aggregate_id;
  for (const MessageHeader& header : message_.headers)
    if (header.name == options_.key_header)
      return "the header " + options_.key_header +
             " is reserved for the key; rename it, or change key_header";
  if (!carries_key && !options_.key_header.empty() && !message_.key.empty())
    message_.headers.push_back({options_.key_header, message_.key});
  for (const MessageHeader& header : message_.headers)
    if (std::string why = why_no_header(header.name, header.value); !why.empty())
      return why + "; change the header";
  return {};
}

std::size_t NatsSink::header_bytes() const {
  std::size_t bytes = kFirstHeaderLine.size() + 2 + header_size(kIdHeader, duplicate_id_);
  for (const MessageHeader& header : message_.headers)
    bytes += header_size(header.name, header.value);
  if (!options_.stream.empty()) bytes += header_size(kStreamHeader, options_.stream);
  return bytes;
}

// Writes message_ into the connection's buffer, without a copy in between.
void NatsSink::append(std::uint64_t tag, std::string_view subject) {
  std::size_t headers = header_bytes();
  if (!expected_id_.empty()) headers += header_size(kLastIdHeader, expected_id_);
  const std::size_t whole = headers + message_.payload.size();
  if (whole > connection_.server().max_payload) {
    settle(tag, {Fate::rejected, 0,
                 "the message has " + std::to_string(whole) + " bytes, the server's limit is " +
                     std::to_string(connection_.server().max_payload) +
                     "; check the server's max_payload"});
    return;
  }
  const std::string numbers = std::to_string(headers) + " " + std::to_string(whole);
  const std::string reply =
      options_.jetstream ? connection_.inbox() + std::to_string(tag) + " " : std::string();
  if (subject.size() + reply.size() + numbers.size() + 8 > kPublishLineMax) {
    settle(tag, {Fate::rejected, 0, "the subject is too long; shorten the topic"});
    return;
  }
  std::string& out = connection_.out();
  out += "HPUB ";
  out += subject;
  out += ' ';
  out += reply;
  out += numbers;
  out += "\r\n";
  out += kFirstHeaderLine;
  append_header(out, kIdHeader, duplicate_id_);
  if (!options_.stream.empty()) append_header(out, kStreamHeader, options_.stream);
  if (!expected_id_.empty()) append_header(out, kLastIdHeader, expected_id_);
  for (const MessageHeader& header : message_.headers)
    append_header(out, header.name, header.value);
  out += "\r\n";
  out += message_.payload;
  out += "\r\n";
}

Status NatsSink::submit(Events events) {
  // An idle sink does not answer pings, so the server closes the connection after some minutes.
  // With nothing in flight, reconnecting is safe.
  if (flights_.empty() && !pump(Duration{0})) DOVETAIL_TRY(open());
  Flight& flight = flights_.emplace_back();
  flight.first_tag = tracker_.add_batch(events.size());
  flight.events.assign(events.begin(), events.end());
  flight.submitted_at = clock_.now();
  if (options_.jetstream) {
    order_.add_batch(flight.first_tag, events);
    for (std::size_t i = 0; i < events.size(); ++i) queue_.push_back(flight.first_tag + i);
    next_window();
    return connection_.write();
  }
  std::uint64_t tag = flight.first_tag;
  for (const Event* event : events) {
    const std::string_view subject = subject_of(*event, subject_scratch_);
    std::string why = why_refused(*event, subject);
    if (why.empty())
      append(tag, subject);
    else
      tracker_.resolve(tag, {Fate::rejected, 0, std::move(why)});
    ++tag;
  }
  connection_.ping();
  flight.pings = ++pings_;
  return connection_.write();
}

// The fate of an event that is known.
void NatsSink::settle(std::uint64_t tag, Outcome outcome) {
  if (options_.jetstream) {
    const bool is_safe = outcome.fate == Fate::confirmed || outcome.fate == Fate::duplicate;
    is_safe ? order_.confirmed(tag) : order_.failed(tag);
    // Behind a duplicate the stream's last message may be another one.
    unchained_.erase(tag);
    if (out_.erase(tag) > 0 && outcome.fate != Fate::confirmed)
      break_ = std::max(break_, Break::event);
  }
  tracker_.resolve(tag, std::move(outcome));
}

void NatsSink::next_window() {
  // Not all that is tried goes out.
  while (out_.empty() && tracker_.unresolved() > 0) {
    const std::size_t before = tracker_.unresolved() + queue_.size();
    fill_window();
    if (tracker_.unresolved() + queue_.size() == before) return;
  }
}

void NatsSink::fill_window() {
  last_ids_.clear();
  learning_.clear();
  is_learning_ = false;
  if (!resend_broken()) return;
  while (out_.size() < kWindowEvents) {
    if (const std::optional<std::uint64_t> due = order_.take_due()) {
      place(*due);
    } else if (!queue_.empty()) {
      const std::uint64_t tag = queue_.front();
      queue_.pop_front();
      place(tag);
    } else {
      break;
    }
  }
  queue_.insert(queue_.begin(), deferred_.begin(), deferred_.end());
  deferred_.clear();
  deferred_keys_.clear();
}

// If the stream refuses everything, trying again what is behind would only be refused, too. False:
// some of them have to wait for the next window.
bool NatsSink::resend_broken() {
  std::vector<std::uint64_t> broken = std::exchange(broken_, {});
  const Break why = std::exchange(break_, Break::none);
  if (broken.empty()) return true;
  std::sort(broken.begin(), broken.end());
  if (why == Break::none) apart_until_ = clock_.now() + kApart;
  for (std::size_t i = 0; i < broken.size(); ++i) {
    const std::uint64_t tag = broken[i];
    if (unchained_.contains(tag) && !last_ids_.empty()) {
      broken_.assign(broken.begin() + static_cast<std::ptrdiff_t>(i), broken.end());
      break_ = Break::event;
      return false;
    }
    const Event& event = order_.event_of(tag);
    const std::string_view subject = subject_of(event, subject_scratch_);
    if (why != Break::event || order_.is_blocked(tag))
      settle(tag, {Fate::again, 0, "not stored: the stream took another message before it"});
    else if (std::string refusal = why_refused(event, subject); !refusal.empty())
      settle(tag, {Fate::rejected, 0, std::move(refusal)});
    else
      write_in_window(tag, subject);
  }
  return true;
}

// A window asks for the streams of new topics, with one event each, or sends to known ones. Behind
// a deferred event wait the next ones of its key.
bool NatsSink::must_defer(const Event& event) {
  if (is_apart()) return false;
  if (event.has_key() && deferred_keys_.contains(event.key_hash)) return true;
  const bool is_known = streams_.contains(event.topic);
  if (out_.empty() && learning_.empty()) is_learning_ = !is_known;
  if (is_known) return is_learning_;
  return !is_learning_ || !learning_.insert(std::string(event.topic)).second;
}

void NatsSink::defer(std::uint64_t tag) {
  deferred_.push_back(tag);
  const Event& event = order_.event_of(tag);
  if (event.has_key()) deferred_keys_.insert(event.key_hash);
}

// Only the first message of a window needs no further header.
bool NatsSink::fits_chained(std::string_view stream) const {
  const auto last = last_ids_.find(stream);
  if (last == last_ids_.end() || is_apart()) return true;
  return header_bytes() + header_size(kLastIdHeader, last->second) + message_.payload.size() <=
         connection_.server().max_payload;
}

void NatsSink::place(std::uint64_t tag) {
  const Event& event = order_.event_of(tag);
  if (must_defer(event)) return defer(tag);
  const std::string_view subject = subject_of(event, subject_scratch_);
  std::string why = why_refused(event, subject);
  const auto stream = streams_.find(event.topic);
  if (why.empty() && stream != streams_.end() && !fits_chained(stream->second)) return defer(tag);
  const bool goes_alone = !why.empty() || is_apart() || stream == streams_.end();
  switch (order_.place(tag, goes_alone ? KeyOrder::own_channel(tag) : channel_of(stream->second))) {
    case KeyOrder::Turn::now:
      if (why.empty()) return write_in_window(tag, subject);
      return settle(tag, {Fate::rejected, 0, std::move(why)});
    case KeyOrder::Turn::later:
      return;
    case KeyOrder::Turn::never:
      return settle(tag, {Fate::again, 0, "not sent: an earlier event of its key failed"});
  }
}

// REQUIRES: message_ is that of the event.
void NatsSink::write_in_window(std::uint64_t tag, std::string_view subject) {
  expected_id_.clear();
  const auto stream = streams_.find(order_.event_of(tag).topic);
  const bool is_chained = stream != streams_.end() && !is_apart();
  if (const auto last = is_chained ? last_ids_.find(stream->second) : last_ids_.end();
      last != last_ids_.end())
    expected_id_ = last->second;
  out_[tag] = !expected_id_.empty();
  append(tag, subject);
  if (is_chained && out_.contains(tag)) last_ids_[stream->second] = duplicate_id_;
}

Result<bool> NatsSink::collect(std::span<Outcome> outcomes, Duration timeout) {
  if (flights_.empty()) return false;
  const TimePoint end = clock_.now() + timeout;
  Duration wait{0};
  while (!tracker_.oldest_is_complete()) {
    DOVETAIL_TRY(pump(wait));
    if (tracker_.oldest_is_complete()) break;
    if (options_.jetstream) probe_silent_events();
    const TimePoint now = clock_.now();
    if (now >= end) return false;
    // Short waits, so that a silent event is probed in time.
    wait = std::min<Duration>(end - now, std::chrono::milliseconds(500));
  }
  tracker_.take_oldest(outcomes);
  if (options_.jetstream) order_.collected();
  flights_.pop_front();
  return true;
}

Status NatsSink::pump(Duration timeout) {
  DOVETAIL_TRY(connection_.pump(timeout, handler_));
  if (lost_) return fail(*lost_);
  if (options_.jetstream) {
    next_window();
    return connection_.write();
  }
  // A pong means that the server has read everything before the ping, and its errors about that
  // arrived before the pong.
  for (const Flight& flight : flights_) {
    if (flight.pings > connection_.pongs()) break;
    if (flight.events.empty()) continue;
    tracker_.resolve_through(flight.first_tag + flight.events.size() - 1, {Fate::confirmed});
  }
  return {};
}

void NatsSink::on_frame(const Frame& frame) {
  if (frame.kind == Frame::Kind::error) return on_refused_subject(frame.text);
  if (!frame.subject.starts_with(connection_.inbox())) return;
  const std::string_view name = frame.subject.substr(connection_.inbox().size());
  std::uint64_t number = 0;
  if (name.starts_with('p')) {
    if (parse_tag(name.substr(1), number)) on_probe(number, frame);
  } else if (parse_tag(name, number)) {
    on_answer(number, frame);
  }
}

void NatsSink::on_answer(std::uint64_t tag, const Frame& frame) {
  if (!frame.headers.empty()) {
    // "No responders": no stream takes the subject, or the stream has no leader now.
    HeaderBlock block;
    if (parse_headers(frame.headers, block) && block.status == 503) return probe(tag, true);
  }
  const Json answer = Json::parse(frame.payload);
  const std::string stream = answer.get("stream").text();
  if (const Json error = answer.get("error"); error.is_there()) {
    if (static_cast<int>(error.get("err_code").number_or(0)) == kAnotherLastId) {
      if (out_.erase(tag) > 0) broken_.push_back(tag);
      return;
    }
    Outcome outcome = outcome_of(error, stream);
    // The header of the chain counts, too.
    if (const auto sent = out_.find(tag);
        outcome.fate == Fate::rejected && sent != out_.end() && sent->second) {
      out_.erase(sent);
      broken_.push_back(tag);
      unchained_.insert(tag);
      break_ = std::max(break_, Break::event);
      return;
    }
    const bool is_of_stream = outcome.fate == Fate::busy && error.get("code").number_or(0) >= 500;
    settle(tag, std::move(outcome));
    if (is_of_stream) break_ = Break::stream;
    return;
  }
  if (const std::int64_t number = answer.get("seq").number_or(0); !stream.empty() && number > 0) {
    const bool is_duplicate = answer.get("duplicate").is_true();
    if (const Event* const event = event_of(tag); event != nullptr && options_.jetstream) {
      if (streams_.size() >= kStreamsMax) streams_.clear();
      if (!streams_.contains(event->topic)) streams_.emplace(event->topic, stream);
    }
    return settle(tag, {.fate = is_duplicate ? Fate::duplicate : Fate::confirmed,
                        .place = {.offset = number}});
  }
  // Servers before 2.11 may report a duplicate although they never stored the first copy.
  settle(tag, {Fate::again, 0,
               "the answer has no sequence number, so the event may not be stored; check that "
               "a stream answers, not another subscriber"});
}

// The server names the subject, not the message. Without permission for a subject, all its messages
// in flight are refused.
void NatsSink::on_refused_subject(std::string_view error_text) {
  std::string subject;
  if (!quoted_name(error_text, subject)) return;
  if (subject.starts_with(api_prefix(options_.domain))) {
    for (const auto& [number, asked] : std::exchange(probes_, {}))
      for (const std::uint64_t tag : asked.tags)
        settle(tag, {Fate::busy, 0,
                     "no stream stores the subject " + asked.subject +
                         "; create one, or check the topic"});
    return;
  }
  const Outcome refused{
      Fate::busy, 0,
      "the NATS server refused it: " + std::string(error_text) + "; check the user's permissions"};
  std::string scratch;
  for (const Flight& flight : flights_)
    for (std::size_t i = 0; i < flight.events.size(); ++i)
      if (subject_of(*flight.events[i], scratch) == subject &&
          (!options_.jetstream || out_.contains(flight.first_tag + i)))
        settle(flight.first_tag + i, refused);
}

const Event* NatsSink::event_of(std::uint64_t tag) const {
  for (const Flight& flight : flights_)
    if (tag >= flight.first_tag && tag - flight.first_tag < flight.events.size())
      return flight.events[tag - flight.first_tag];
  return nullptr;
}

// Asks which streams store the event's subject.
void NatsSink::probe(std::uint64_t tag, bool nobody_took_it) {
  const Event* const event = event_of(tag);
  if (event == nullptr) return;
  std::string scratch;
  const std::string subject(subject_of(*event, scratch));
  auto asked = std::find_if(probes_.begin(), probes_.end(),
                            [&](const auto& one) { return one.second.subject == subject; });
  if (asked == probes_.end()) {
    asked = probes_.emplace(++probes_made_, Probe{subject, {}, {}}).first;
    connection_.publish(api_prefix(options_.domain) + "STREAM.NAMES",
                        connection_.inbox() + "p" + std::to_string(probes_made_),
                        "{\"subject\":" + json_text(subject) + "}");
  }
  (nobody_took_it ? asked->second.tags : asked->second.silent_tags).push_back(tag);
}

void NatsSink::on_probe(std::uint64_t number, const Frame& frame) {
  const auto found = probes_.find(number);
  if (found == probes_.end()) return;
  const Probe asked = std::move(found->second);
  probes_.erase(found);
  HeaderBlock block;
  const bool nobody =
      !frame.headers.empty() && parse_headers(frame.headers, block) && block.status == 503;
  const Json answer = Json::parse(frame.payload);
  const auto error = static_cast<int>(answer.get("error").get("err_code").number_or(0));
  const char* const why = why_no_jetstream(nobody ? kNotEnabled : error);
  if (why != nullptr) {
    lost_ = Error{Errc::unavailable, why};
    return;
  }
  const bool has_stream = !answer.get("streams").items().empty();
  // The stream exists, so it has no leader now or is new. A silent event may still get its answer.
  const Outcome outcome = error != 0 || has_stream
                              ? Outcome{Fate::again, 0,
                                        "the stream that stores " + asked.subject +
                                            " does not answer; check that it has a leader"}
                              : Outcome{Fate::busy, 0,
                                        "no stream stores the subject " + asked.subject +
                                            "; create one, or check the topic"};
  for (const std::uint64_t tag : asked.tags) settle(tag, outcome);
  if (outcome.fate == Fate::busy)
    for (const std::uint64_t tag : asked.silent_tags) settle(tag, outcome);
}

// If a subject has a plain subscriber but no stream, no answer and no error ever arrives.
void NatsSink::probe_silent_events() {
  const TimePoint now = clock_.now();
  for (Flight& flight : flights_) {
    if (now - flight.submitted_at < options_.probe_after) break;
    flight.submitted_at = now;
    for (std::size_t i = 0; i < flight.events.size(); ++i)
      if (out_.contains(flight.first_tag + i)) probe(flight.first_tag + i, false);
  }
}

}  // namespace dovetail::nats

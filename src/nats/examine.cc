#include "nats/examine.h"

#include <set>

#include "core/findings.h"
#include "core/message/json.h"
#include "nats/connection.h"
#include "nats/jetstream.h"

namespace dovetail::nats {

namespace {

using F = const Facts&;

constexpr std::int64_t kWindowUsual = Duration(std::chrono::minutes(2)).count();
constexpr std::int64_t kAckWaitMin = Duration(std::chrono::seconds(10)).count();

// Ages as Facts have them.
std::int64_t age_of(const Json& nanoseconds) { return nanoseconds.number_or(0) / 1000; }

// `wanted`: the largest payload, as a message; 0: unknown. `is_old`: of the server.
constexpr Check kServer[] = {
    {Severity::warning, "nats-fire-and-forget", [](F f) { return !f.is("jetstream"); },
     "core NATS is used: an event counts as delivered when the server has read it; a subscriber "
     "that is away misses it",
     "set jetstream = true, unless events may be lost"},
    {Severity::warning, "nats-server-old", [](F f) { return f.is("jetstream") && f.is("is_old"); },
     "the NATS server is {version}; before 2.11 it may treat an event as a duplicate although it "
     "lost the first copy in a crash",
     "run nats-server 2.11 or newer"},
    {Severity::warning, "nats-max-payload",
     [](F f) { return f.number("wanted") > f.number("max_payload"); },
     "an outbox accepts payloads of {payload_bytes_max} bytes, but the server accepts "
     "{max_payload}, with headers",
     "raise max_payload of the server, or lower payload_max of the outbox"},
};

constexpr Check kNoSubject{Severity::error, "nats-no-stream", nullptr,
                           "no stream stores the subject {subject}",
                           "create a stream for it, or change the topic"};
constexpr Check kNoStream{Severity::error, "nats-no-stream", nullptr,
                          "the stream {stream} does not exist", "create it, or check its name"};

// Facts as the server calls the settings of a stream, and `remembered`: by inboxes, 0: not known.
constexpr Check kStream[] = {
    {Severity::error, "nats-discard-old",
     [](F f) {
       const bool keeps_new = f.is("discard", "new");
       const bool has_limit = f.number("max_msgs") > 0 || f.number("max_bytes") > 0;
       return (has_limit && !keeps_new) || (f.number("max_msgs_per_subject") > 0 &&
                                            !(keeps_new && f.is("discard_new_per_subject")));
     },
     "the stream {stream} drops its oldest messages when it is full, even unread ones",
     "set its discard policy to new, so that the relay waits instead, or remove max_msgs, "
     "max_bytes and max_msgs_per_subject"},
    {Severity::error, "nats-bytes-limit",
     [](F f) { return f.is("is_old") && f.is("discard", "new") && f.number("max_bytes") > 0; },
     "the stream {stream} has a limit in bytes; when it is full, nats-server {version} may drop "
     "its "
     "oldest message for a new one, even an unread one",
     "limit it by max_msgs instead of max_bytes, or run nats-server 2.11 or newer"},
    {Severity::error, "nats-no-ack", [](F f) { return f.is("no_ack"); },
     "the stream {stream} confirms nothing (no_ack), so no event ever counts as delivered",
     "set no_ack = false on the stream"},
    {Severity::error, "nats-memory-storage", [](F f) { return f.is("storage", "memory"); },
     "the stream {stream} is kept in memory: a restart of the server deletes it",
     "create it with file storage"},
    {Severity::warning, "nats-replicas", [](F f) { return f.number("num_replicas", 1) < 3; },
     "the stream {stream} has {num_replicas:copy|copies}; the server confirms before it syncs to "
     "disk, so a power failure loses the events of the last two minutes",
     "give it 3 replicas on separate machines, or set sync_interval: always (nats-server 2.10 or "
     "newer)"},
    {[](F f) {
       return f.number("max_age") < f.number("remembered") ? Severity::warning : Severity::note;
     },
     "nats-max-age", [](F f) { return f.number("max_age") > 0; },
     "the stream {stream} drops messages after {max_age:age}, even unread ones",
     "raise max_age above the longest outage of a consumer"},
    {Severity::warning, "nats-inbox-forgets",
     [](F f) {
       return f.has("remembered") &&
              (f.number("max_age") == 0 || f.number("max_age") > f.number("remembered"));
     },
     "the stream {stream} keeps messages longer than the inbox remembers them ({remembered:age}): "
     "when a consumer starts over, old events are parked",
     "lower max_age of the stream to the inbox's retention, or raise that retention"},
    {[](F f) {
       return f.number("duplicate_window") < kWindowUsual ? Severity::warning : Severity::note;
     },
     "nats-duplicate-window", [](F f) { return f.number("duplicate_window") <= kWindowUsual; },
     "the stream {stream} detects duplicates for {duplicate_window:age}; events that are sent "
     "again "
     "after a longer outage are stored twice, and only an inbox drops them",
     "if consumers have no inbox, raise duplicate_window above the longest outage that you expect"},
    {Severity::warning, "nats-max-msg-size",
     [](F f) {
       return f.number("max_msg_size") > 0 && f.number("max_msg_size") < f.number("wanted");
     },
     "an outbox accepts payloads of {payload_bytes_max} bytes, but the stream {stream} accepts "
     "{max_msg_size}, with headers",
     "raise max_msg_size of the stream, or lower payload_max of the outbox"},
};

constexpr Check kConsumer[] = {
    {Severity::error, "nats-max-deliver", [](F f) { return f.number("max_deliver") > 0; },
     "the consumer {consumer} gives up messages after {max_deliver} deliveries",
     "delete it, so that dovetail creates it, or set max_deliver to -1"},
    {Severity::error, "nats-consumer-kind",
     [](F f) { return !f.is("ack_policy", "explicit") || f.is("is_pushed"); },
     "the consumer {consumer} is not a pull consumer with explicit acknowledgements",
     "delete it, so that dovetail creates it, or choose another group"},
    {Severity::warning, "nats-ack-wait", [](F f) { return f.number("ack_wait") < kAckWaitMin; },
     "the consumer {consumer} delivers a message again after {ack_wait:age}, and a slow handler "
     "may "
     "need longer",
     "raise redeliver_after above the longest handler"},
};

Facts facts_of(const Examined& what, const ServerInfo& server) {
  const std::size_t payload = what.payload_bytes_max;
  Facts facts;
  facts.set("jetstream", what.jetstream).set("version", server.version);
  facts.set("is_old", parse_version(server.version) < Version{2, 11, 0});
  facts.set("max_payload", server.max_payload).set("payload_bytes_max", payload);
  facts.set("wanted", payload == 0 ? 0 : payload + kMessageOverheadMax);
  if (what.inbox_retention) facts.set("remembered", *what.inbox_retention);
  return facts;
}

Facts stream_facts(Facts facts, const std::string& name, const Json& config) {
  facts.set("stream", name);
  for (const char* text : {"discard", "storage"}) facts.set(text, config.get(text).text());
  for (const char* flag : {"no_ack", "discard_new_per_subject"})
    facts.set(flag, config.get(flag).is_true());
  for (const char* number : {"max_msgs", "max_bytes", "max_msgs_per_subject", "max_msg_size"})
    facts.set(number, config.get(number).number_or(-1));
  facts.set("num_replicas", config.get("num_replicas").number_or(1));
  for (const char* age : {"max_age", "duplicate_window"}) facts.set(age, age_of(config.get(age)));
  return facts;
}

Facts consumer_facts(const std::string& name, const Json& config) {
  return Facts()
      .set("consumer", name)
      .set("max_deliver", config.get("max_deliver").number_or(-1))
      .set("ack_policy", config.get("ack_policy").text())
      .set("is_pushed", config.get("deliver_subject").is_there())
      .set("ack_wait", age_of(config.get("ack_wait")));
}

Result<std::set<std::string>> find_streams(JetStream& jetstream, const Examined& what,
                                           Findings& out) {
  std::set<std::string> streams;
  if (!what.stream.empty()) streams.insert(what.stream);
  for (const std::string& subject : what.subjects) {
    const Result<std::vector<std::string>> names = jetstream.streams_of(subject);
    if (!names) return fail(names.error());
    if (names->empty()) out.add(kNoSubject, Facts().set("subject", subject));
    streams.insert(names->begin(), names->end());
  }
  return streams;
}

}  // namespace

Result<std::vector<Kept>> retention(const Examined& what) {
  if (!what.jetstream) return std::vector<Kept>{};
  Result<Connection> connection = Connection::open(what.connection);
  if (!connection) return fail(connection.error());
  JetStream jetstream(*connection, what.domain, what.connection.request_timeout);
  Findings ignored;
  const Result<std::set<std::string>> streams = find_streams(jetstream, what, ignored);
  if (!streams) return fail(streams.error());
  std::vector<Kept> kept;
  for (const std::string& name : *streams) {
    const Result<Answer> info = jetstream.ask("STREAM.INFO." + name);
    if (!info) return fail(info.error());
    if (info->error_number() != 0) continue;  // reported by examine()
    const Json json = info->json();
    const Json config = json.get("config");
    Kept& one = kept.emplace_back(Kept{"stream " + name});
    if (const std::int64_t age = age_of(config.get("max_age")); age > 0) one.age = Duration{age};
    one.comes_again = config.get("retention").text() != "workqueue";
  }
  return kept;
}

Result<std::vector<Finding>> examine(const Examined& what) {
  Result<Connection> connection = Connection::open(what.connection);
  if (!connection) return fail(connection.error());
  Findings findings;
  const Facts known = facts_of(what, connection->server());
  findings.check(kServer, known);
  if (!what.jetstream) return findings.take();
  JetStream jetstream(*connection, what.domain, what.connection.request_timeout);
  const Result<std::set<std::string>> streams = find_streams(jetstream, what, findings);
  if (!streams) return fail(streams.error());
  for (const std::string& name : *streams) {
    const Result<Answer> info = jetstream.ask("STREAM.INFO." + name);
    if (!info) return fail(info.error());
    if (info->error_number() == kStreamNotFound) {
      findings.add(kNoStream, Facts().set("stream", name));
      continue;
    }
    findings.check(kStream, stream_facts(known, name, info->json().get("config")));
    if (what.durable.empty()) continue;
    const Result<Answer> consumer = jetstream.ask("CONSUMER.INFO." + name + "." + what.durable);
    if (!consumer) return fail(consumer.error());
    if (consumer->error_number() != 0) continue;  // created when it is needed
    findings.check(kConsumer, consumer_facts(what.durable, consumer->json().get("config")));
  }
  return findings.take();
}

}  // namespace dovetail::nats

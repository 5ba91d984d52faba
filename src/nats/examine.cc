#include "nats/examine.h"

#include <algorithm>
#include <set>

#include "nats/connection.h"
#include "nats/jetstream.h"
#include "nats/json.h"

namespace dovetail::nats {

namespace {

using Findings = std::vector<Finding>;

constexpr Duration kWindowUsual = std::chrono::minutes(2);

Duration duration_of(const Json& nanoseconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::nanoseconds(nanoseconds.number_or(0)));
}

std::string seconds_text(Duration duration) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(duration).count()) + " s";
}

void check_server(const Examined& what, const ServerInfo& server, Findings& out) {
  if (!what.jetstream)
    out.push_back({Severity::warning, "nats-fire-and-forget",
                   "core NATS is used: an event counts as delivered when the server has read it; a "
                   "subscriber that is away misses it",
                   "set jetstream = true, unless events may be lost"});
  if (what.jetstream && parse_version(server.version) < Version{2, 11, 0})
    out.push_back(
        {Severity::warning, "nats-server-old",
         "the NATS server is " + server.version +
             "; before 2.11 it may treat an event as a duplicate although it lost the first "
             "copy in a crash",
         "run nats-server 2.11 or newer"});
  if (what.payload_bytes_max > 0 &&
      what.payload_bytes_max + kMessageOverheadMax > server.max_payload)
    out.push_back({Severity::warning, "nats-max-payload",
                   "an outbox accepts payloads of " + std::to_string(what.payload_bytes_max) +
                       " bytes, but the server accepts " + std::to_string(server.max_payload) +
                       ", with headers",
                   "raise max_payload of the server, or lower payload_max of the outbox"});
}

// What a stream does with unread messages.
void check_limits(const std::string& name, const Json& config, Findings& out) {
  const bool keeps_new = config.get("discard").text() == "new";
  const bool has_limit =
      config.get("max_msgs").number_or(-1) > 0 || config.get("max_bytes").number_or(-1) > 0;
  const bool has_subject_limit = config.get("max_msgs_per_subject").number_or(-1) > 0;
  const bool keeps_new_of_subject = keeps_new && config.get("discard_new_per_subject").is_true();
  if ((has_limit && !keeps_new) || (has_subject_limit && !keeps_new_of_subject))
    out.push_back(
        {Severity::error, "nats-discard-old",
         "the stream " + name + " drops its oldest messages when it is full, even unread ones",
         "set its discard policy to new, so that the relay waits instead, or remove "
         "max_msgs, max_bytes and max_msgs_per_subject"});
  if (config.get("no_ack").is_true())
    out.push_back(
        {Severity::error, "nats-no-ack",
         "the stream " + name + " confirms nothing (no_ack), so no event ever counts as delivered",
         "set no_ack = false on the stream"});
}

void check_copies(const std::string& name, const Json& config, Findings& out) {
  if (config.get("storage").text() == "memory")
    out.push_back({Severity::error, "nats-memory-storage",
                   "the stream " + name + " is kept in memory: a restart of the server deletes it",
                   "create it with file storage"});
  const std::int64_t copies = config.get("num_replicas").number_or(1);
  if (copies < 3)
    out.push_back(
        {Severity::warning, "nats-replicas",
         "the stream " + name + " has " + std::to_string(copies) +
             (copies == 1 ? " copy" : " copies") +
             "; the server confirms before it syncs to disk, so a power failure loses the "
             "events of the last two minutes",
         "give it 3 replicas on separate machines, or set sync_interval: always "
         "(nats-server 2.10 or newer)"});
}

void check_times(const std::string& name, const Json& config, const Examined& what, Findings& out) {
  const Duration age = duration_of(config.get("max_age"));
  const bool forgets = what.inbox_retention.has_value();
  if (age > Duration{0})
    out.push_back(
        {forgets && age < *what.inbox_retention ? Severity::warning : Severity::note,
         "nats-max-age",
         "the stream " + name + " drops messages after " + seconds_text(age) + ", even unread ones",
         "raise max_age above the longest outage of a consumer"});
  if (forgets && (age == Duration{0} || age > *what.inbox_retention))
    out.push_back(
        {Severity::warning, "nats-inbox-forgets",
         "the stream " + name + " keeps messages longer than the inbox remembers them (" +
             seconds_text(*what.inbox_retention) +
             "): when a consumer starts over, old events are parked",
         "lower max_age of the stream to the inbox's retention, or raise that retention"});
  const Duration window = duration_of(config.get("duplicate_window"));
  if (window <= kWindowUsual)
    out.push_back(
        {window < kWindowUsual ? Severity::warning : Severity::note, "nats-duplicate-window",
         "the stream " + name + " detects duplicates for " + seconds_text(window) +
             "; events that are sent again after a longer outage are stored twice, and only "
             "an inbox drops them",
         "if consumers have no inbox, raise duplicate_window above the longest outage "
         "that you expect"});
}

void check_stream(const std::string& name, const Json& config, const Examined& what,
                  const ServerInfo&, Findings& out) {
  check_limits(name, config, out);
  check_copies(name, config, out);
  check_times(name, config, what, out);
  const std::int64_t size = config.get("max_msg_size").number_or(-1);
  if (size > 0 && what.payload_bytes_max > 0 &&
      static_cast<std::size_t>(size) < what.payload_bytes_max + kMessageOverheadMax)
    out.push_back({Severity::warning, "nats-max-msg-size",
                   "an outbox accepts payloads of " + std::to_string(what.payload_bytes_max) +
                       " bytes, but the stream " + name + " accepts " + std::to_string(size) +
                       ", with headers",
                   "raise max_msg_size of the stream, or lower payload_max of the outbox"});
}

void check_consumer(const std::string& name, const Json& config, Findings& out) {
  if (config.get("max_deliver").number_or(-1) > 0)
    out.push_back({Severity::error, "nats-max-deliver",
                   "the consumer " + name + " gives up messages after " +
                       std::to_string(config.get("max_deliver").number_or(0)) + " deliveries",
                   "delete it, so that dovetail creates it, or set max_deliver to -1"});
  if (config.get("ack_policy").text() != "explicit" || config.get("deliver_subject").is_there())
    out.push_back(
        {Severity::error, "nats-consumer-kind",
         "the consumer " + name + " is not a pull consumer with explicit acknowledgements",
         "delete it, so that dovetail creates it, or choose another group"});
  const Duration wait = duration_of(config.get("ack_wait"));
  if (wait < std::chrono::seconds(10))
    out.push_back({Severity::warning, "nats-ack-wait",
                   "the consumer " + name + " delivers a message again after " +
                       seconds_text(wait) + ", and a slow handler may need longer",
                   "raise redeliver_after above the longest handler"});
}

Result<std::set<std::string>> find_streams(JetStream& jetstream, const Examined& what,
                                           Findings& out) {
  std::set<std::string> streams;
  if (!what.stream.empty()) streams.insert(what.stream);
  for (const std::string& subject : what.subjects) {
    const Result<std::vector<std::string>> names = jetstream.streams_of(subject);
    if (!names) return fail(names.error());
    if (names->empty())
      out.push_back({Severity::error, "nats-no-stream", "no stream stores the subject " + subject,
                     "create a stream for it, or change the topic"});
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
    const Duration age = duration_of(config.get("max_age"));
    if (age > Duration{0}) one.age = age;
    one.comes_again = config.get("retention").text() != "workqueue";
  }
  return kept;
}

Result<std::vector<Finding>> examine(const Examined& what) {
  Result<Connection> connection = Connection::open(what.connection);
  if (!connection) return fail(connection.error());
  Findings findings;
  check_server(what, connection->server(), findings);
  if (!what.jetstream) return findings;
  JetStream jetstream(*connection, what.domain, what.connection.request_timeout);
  const Result<std::set<std::string>> streams = find_streams(jetstream, what, findings);
  if (!streams) return fail(streams.error());
  for (const std::string& name : *streams) {
    const Result<Answer> info = jetstream.ask("STREAM.INFO." + name);
    if (!info) return fail(info.error());
    if (info->error_number() == kStreamNotFound) {
      findings.push_back({Severity::error, "nats-no-stream",
                          "the stream " + name + " does not exist",
                          "create it, or check its name"});
      continue;
    }
    const Json json = info->json();
    check_stream(name, json.get("config"), what, connection->server(), findings);
    if (what.durable.empty()) continue;
    const Result<Answer> consumer = jetstream.ask("CONSUMER.INFO." + name + "." + what.durable);
    if (!consumer) return fail(consumer.error());
    if (consumer->error_number() != 0) continue;  // created when it is needed
    check_consumer(what.durable, consumer->json().get("config"), findings);
  }
  return findings;
}

}  // namespace dovetail::nats

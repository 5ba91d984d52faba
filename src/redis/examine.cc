#include "redis/examine.h"

#include <string>
#include <string_view>
#include <utility>

#include "core/findings.h"
#include "redis/connection.h"
#include "redis/entry_id.h"
#include "redis/errors.h"

namespace dovetail::redis {

namespace {

using F = const Facts&;

constexpr std::string_view kPersist =
    "CONFIG SET appendonly yes, and appendfsync always; CONFIG REWRITE";
constexpr std::string_view kSync = "CONFIG SET appendfsync always; CONFIG REWRITE";
constexpr std::string_view kNoEviction = "CONFIG SET maxmemory-policy noeviction; CONFIG REWRITE";

bool evicts(F f, std::string_view which) { return f.text("maxmemory-policy").starts_with(which); }

// Facts as INFO and CONFIG GET have them, and the options.
constexpr Check kServer[] = {
    {Severity::warning, "redis-info-hidden", [](F f) { return f.has("info_refused"); },
     "the user may not run INFO, so most checks are skipped: {info_refused}",
     "grant the user +info, or check the server manually"},
    {Severity::note, "redis-config-hidden", [](F f) { return f.is("config_hidden"); },
     "the user may not run CONFIG GET: persistence, eviction and replicas were not checked",
     "grant the user +config|get, or check them manually (see docs/BROKERS.md)"},
    {Severity::error, "redis-version",
     [](F f) {
       return f.has("redis_version") &&
              (f.number("major") < 6 || (f.number("major") == 6 && f.number("minor") < 2));
     },
     "Redis {redis_version} lacks XAUTOCLAIM and NOMKSTREAM",
     "use Redis 6.2 or newer; 7.0 is tested"},
    {Severity::error, "redis-cluster", [](F f) { return f.is("cluster_enabled", "1"); },
     "the server is part of a Redis Cluster",
     "use a single primary, with or without replicas; Redis Cluster is not supported"},
    {Severity::error, "redis-replica", [](F f) { return f.is("role", "slave"); },
     "the server is a replica: relays cannot write and consumers cannot acknowledge",
     "set the url to the primary"},
    {Severity::error, "redis-not-persistent",
     [](F f) { return f.is("appendonly", "no") && !f.text("save").empty(); },
     "appendonly is off: a restart loses all events since the last snapshot, even confirmed ones",
     kPersist},
    {Severity::error, "redis-not-persistent",
     [](F f) { return f.is("appendonly", "no") && f.text("save").empty(); },
     "appendonly and snapshots are off: a restart loses all events, even confirmed ones", kPersist},
    {Severity::warning, "redis-fsync",
     [](F f) { return !f.is("appendonly", "no") && f.is("appendfsync", "everysec"); },
     "appendfsync is everysec: a power failure can lose up to two seconds of confirmed events",
     kSync},
    {Severity::error, "redis-fsync",
     [](F f) { return !f.is("appendonly", "no") && f.is("appendfsync", "no"); },
     "appendfsync is no: a power failure can lose half a minute of confirmed events", kSync},
    {Severity::error, "redis-persist-failed",
     [](F f) { return f.is("aof_last_write_status", "err"); },
     "the last write of the append-only file failed", "check the server's disk and log"},
    {Severity::error, "redis-persist-failed",
     [](F f) { return f.is("rdb_last_bgsave_status", "err"); },
     "the last snapshot failed; with default settings the server then refuses writes",
     "check the server's disk and log"},
    {Severity::error, "redis-eviction", [](F f) { return evicts(f, "allkeys"); },
     "maxmemory-policy is {maxmemory-policy}: when memory is full, the server deletes whole "
     "streams, even unread entries{as_soon}",
     kNoEviction},
    {Severity::warning, "redis-eviction", [](F f) { return evicts(f, "volatile"); },
     "maxmemory-policy is {maxmemory-policy}: when memory is full, the server deletes streams with "
     "a time to live{as_soon}",
     kNoEviction},
    {Severity::note, "redis-no-memory-limit",
     [](F f) { return f.has("maxmemory") && f.number("maxmemory") == 0; },
     "maxmemory is not set: streams grow until the system kills the server",
     "set maxmemory below the machine's memory: the relay then waits and nothing is lost; trim "
     "entries that all groups have read (XTRIM MINID)"},
    {Severity::warning, "redis-memory-short",
     [](F f) {
       return f.number("maxmemory") > 0 && f.number("used_memory") > f.number("maxmemory") / 10 * 9;
     },
     "more than 90 % of maxmemory is in use; at 100 % no event can be added",
     "raise maxmemory, or trim entries that all groups have read (XTRIM MINID)"},
    {Severity::warning, "redis-bulk-length",
     [](F f) {
       return f.number("proto-max-bulk-len") > 0 &&
              f.number("payload_bytes_max") > f.number("proto-max-bulk-len");
     },
     "an outbox accepts payloads of {payload_bytes_max} bytes, but the server accepts fields of "
     "{proto-max-bulk-len}",
     "raise proto-max-bulk-len of the server, or lower payload_max of the outbox"},
    {Severity::error, "redis-replicas-missing",
     [](F f) { return f.number("wait_replicas") > f.number("connected_slaves"); },
     "wait_replicas is {wait_replicas}, but connected replicas: {connected_slaves}; nothing is "
     "published",
     "start the replicas, or lower wait_replicas"},
    {Severity::warning, "redis-failover-loses",
     [](F f) {
       return f.number("connected_slaves") > 0 && f.number("wait_replicas") == 0 &&
              f.is("min-replicas-to-write", "0");
     },
     "nothing waits for the replicas: a failover loses confirmed events that they have not "
     "received",
     "set wait_replicas of the sink and min-replicas-to-write of the server"},
};

constexpr Check kNoPermission{Severity::error, "redis-no-permission", nullptr,
                              "stream \"{stream}\": {error}",
                              "grant the user the key and +@stream"};
constexpr Check kNoStream{Severity::error, "redis-no-stream", nullptr,
                          "the key \"{stream}\" holds a {type}, not a stream",
                          "check `read`, or rename the key"};
constexpr Check kStream[] = {
    {Severity::error, "redis-expires", [](F f) { return f.is("expires"); },
     "stream \"{stream}\" has a time to live: the server will delete it with its entries",
     "PERSIST {stream}"},
};
constexpr Check kTrimmed{
    Severity::error, "redis-trimmed-unread", nullptr,
    "stream \"{stream}\" lost entries that group \"{group}\" had not read",
    "do not trim the stream (MAXLEN, XTRIM, XDEL) before its groups have read it; publish the lost "
    "events again"};
constexpr Check kConsumerGone{
    Severity::warning, "redis-consumer-gone",
    [](F f) { return f.number("pending") > 0 && f.number("idle") >= f.number("idle_max"); },
    "consumer \"{consumer}\" of stream \"{stream}\" holds {pending} entries and was last seen "
    "{idle_s} s ago",
    "start its relay, or another of the group, which takes them over after redeliver_after"};

class Examination {
 public:
  Examination(const Options& options, Connection& connection, std::size_t payload_bytes_max)
      : options_(options), connection_(connection) {
    server_.set("wait_replicas", options.wait_replicas);
    server_.set("payload_bytes_max", payload_bytes_max);
  }

  Result<std::vector<Finding>> run() {
    DOVETAIL_TRY(learn());
    findings_.check(kServer, server_);
    for (const std::string& stream : options_.streams) DOVETAIL_TRY(check_stream(stream));
    return findings_.take();
  }

 private:
  // Leaves an error reply to the caller.
  Result<Reply> ask(std::initializer_list<std::string_view> arguments) {
    connection_.command(arguments);
    return connection_.take_within(options_.request_timeout);
  }

  Status learn() {
    const Result<Reply> info = ask({"INFO"});
    if (!info) return fail(info.error());
    server_.set("connected_slaves", 0);
    if (info->value().is_error())
      server_.set("info_refused", describe(info->value().text()));
    else
      parse_info(info->value().text(), server_);
    const std::string_view version = server_.text("redis_version");
    const std::size_t dot = version.find('.');
    server_.set("major", server_.number("redis_version"));
    if (dot != std::string_view::npos) server_.set("minor", version.substr(dot + 1));
    bool has_config = false;
    for (const std::string_view name :
         {"appendonly", "appendfsync", "save", "maxmemory", "maxmemory-policy",
          "min-replicas-to-write", "proto-max-bulk-len"}) {
      const Result<Reply> reply = ask({"CONFIG", "GET", name});
      if (!reply) return fail(reply.error());
      if (!reply->value().is_array()) continue;
      server_.set(name, reply->value().named(name).text());
      has_config = true;
    }
    server_.set("config_hidden", !has_config);
    server_.set("as_soon",
                server_.number("maxmemory") == 0 ? " (as soon as maxmemory is set)" : "");
    return {};
  }

  Status check_stream(const std::string& stream) {
    const Result<Reply> kind = ask({"TYPE", stream});
    if (!kind) return fail(kind.error());
    const std::string_view type = kind->value().text();
    Facts facts;
    facts.set("stream", stream).set("group", options_.group).set("type", type);
    if (kind->value().is_error()) {
      findings_.add(kNoPermission, facts.set("error", describe(type)));
      return {};
    }
    if (type == "none") return {};  // the source creates it
    if (type != "stream") {
      findings_.add(kNoStream, facts);
      return {};
    }
    const Result<Reply> left = ask({"PTTL", stream});
    if (!left) return fail(left.error());
    facts.set("expires", !left->value().is_error() && left->value().integer() >= 0);
    findings_.check(kStream, facts);
    return check_group(stream, facts);
  }

  Status check_group(const std::string& stream, const Facts& facts) {
    const Result<Reply> about = ask({"XINFO", "STREAM", stream});
    if (!about) return fail(about.error());
    const Result<Reply> groups = ask({"XINFO", "GROUPS", stream});
    if (!groups) return fail(groups.error());
    for (std::size_t i = 0; i < groups->value().size(); ++i) {
      const Value group = groups->value().at(i);
      if (group.named("name").text() != options_.group) continue;
      if (lost_unread(about->value(), group)) findings_.add(kTrimmed, facts);
      return check_consumers(stream, facts);
    }
    return {};
  }

  // Entries were deleted by id, or the stream was trimmed: then more entries were added after the
  // last one read than still exist. Servers before 7.0 do not report it.
  static bool lost_unread(Value stream, Value group) {
    const auto read = EntryId::parse(group.named("last-delivered-id").text());
    if (!read) return false;
    const auto deleted = EntryId::parse(stream.named("max-deleted-entry-id").text());
    if (deleted && *deleted > *read) return true;
    const auto first = EntryId::parse(stream.named("first-entry").at(0).text());
    if (first && *first <= *read) return false;
    return group.named("lag").integer() > stream.named("length").integer();
  }

  Status check_consumers(const std::string& stream, Facts facts) {
    const Result<Reply> consumers = ask({"XINFO", "CONSUMERS", stream, options_.group});
    if (!consumers) return fail(consumers.error());
    facts.set("idle_max",
              std::chrono::duration_cast<std::chrono::milliseconds>(2 * options_.redeliver_after)
                  .count());
    for (std::size_t i = 0; i < consumers->value().size(); ++i) {
      const Value consumer = consumers->value().at(i);
      const std::int64_t idle_ms = consumer.named("idle").integer();
      facts.set("consumer", consumer.named("name").text())
          .set("pending", consumer.named("pending").integer())
          .set("idle", idle_ms)
          .set("idle_s", idle_ms / 1000);
      findings_.check({&kConsumerGone, 1}, facts);
    }
    return {};
  }

  const Options& options_;
  Connection& connection_;
  Facts server_;
  Findings findings_;
};

}  // namespace

void parse_info(std::string_view text, Facts& facts) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find("\r\n"), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 2, text.size()));
    if (const std::size_t colon = line.find(':'); colon != std::string_view::npos)
      facts.set(line.substr(0, colon), line.substr(colon + 1));
  }
}

std::vector<Kept> retention(const Options& options) {
  std::vector<Kept> kept;
  for (const std::string& stream : options.streams)
    kept.push_back({"stream " + stream, {}, !options.delete_settled});
  return kept;
}

Result<std::vector<Finding>> examine(const Options& options, Clock& clock,
                                     std::size_t payload_bytes_max) {
  Result<Connection> connection = Connection::open(options, clock);
  if (!connection) return fail(connection.error());
  return Examination(options, *connection, payload_bytes_max).run();
}

}  // namespace dovetail::redis

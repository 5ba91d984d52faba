#include "redis/examine.h"

#include <charconv>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "redis/connection.h"
#include "redis/entry_id.h"
#include "redis/errors.h"

namespace dovetail::redis {

namespace {

using Facts = std::map<std::string, std::string, std::less<>>;

std::string_view fact(const Facts& facts, std::string_view name) {
  const auto found = facts.find(name);
  return found == facts.end() ? std::string_view() : std::string_view(found->second);
}

std::int64_t number(std::string_view text) {
  std::int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// "name:value" in each line of INFO.
Facts facts_of_info(std::string_view text) {
  Facts facts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find("\r\n"), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 2, text.size()));
    if (const std::size_t colon = line.find(':'); colon != std::string_view::npos)
      facts.emplace(line.substr(0, colon), line.substr(colon + 1));
  }
  return facts;
}

class Examination {
 public:
  Examination(const Options& options, Connection& connection, std::size_t payload_bytes_max)
      : options_(options), connection_(connection), payload_bytes_max_(payload_bytes_max) {}

  Result<std::vector<Finding>> run() {
    DOVETAIL_TRY(learn());
    check_version();
    check_role();
    check_persistence();
    check_memory();
    check_size();
    check_replicas();
    for (const std::string& stream : options_.streams) DOVETAIL_TRY(check_stream(stream));
    return std::move(findings_);
  }

 private:
  void add(Severity severity, std::string code, std::string what, std::string what_to_do) {
    findings_.push_back({severity, std::move(code), std::move(what), std::move(what_to_do)});
  }

  // Leaves an error reply to the caller.
  Result<Reply> ask(std::initializer_list<std::string_view> arguments) {
    connection_.command(arguments);
    return connection_.take_within(options_.reply_timeout);
  }

  Status learn() {
    const Result<Reply> info = ask({"INFO"});
    if (!info) return fail(info.error());
    if (info->value().is_error())
      add(Severity::warning, "redis-info-hidden",
          "the user may not run INFO, so most checks are skipped: " +
              describe(info->value().text()),
          "grant the user +info, or check the server manually");
    info_ = facts_of_info(info->value().text());
    for (const std::string_view name :
         {"appendonly", "appendfsync", "save", "maxmemory", "maxmemory-policy",
          "min-replicas-to-write", "proto-max-bulk-len"}) {
      const Result<Reply> reply = ask({"CONFIG", "GET", name});
      if (!reply) return fail(reply.error());
      if (reply->value().is_array()) config_.emplace(name, reply->value().named(name).text());
    }
    if (config_.empty())
      add(Severity::note, "redis-config-hidden",
          "the user may not run CONFIG GET: persistence, eviction and replicas were not checked",
          "grant the user +config|get, or check them manually (see docs/BROKERS.md)");
    return {};
  }

  void check_version() {
    const std::string_view version = fact(info_, "redis_version");
    if (version.empty()) return;
    const std::int64_t major = number(version);
    const std::int64_t minor =
        number(version.substr(std::min(version.find('.') + 1, version.size())));
    if (major < 6 || (major == 6 && minor < 2))
      add(Severity::error, "redis-version",
          "Redis " + std::string(version) + " lacks XAUTOCLAIM and NOMKSTREAM",
          "use Redis 6.2 or newer; 7.0 is tested");
    if (fact(info_, "cluster_enabled") == "1")
      add(Severity::error, "redis-cluster", "the server is part of a Redis Cluster",
          "use a single primary, with or without replicas; Redis Cluster is not supported");
  }

  void check_role() {
    if (fact(info_, "role") != "slave") return;
    add(Severity::error, "redis-replica",
        "the server is a replica: relays cannot write and consumers cannot acknowledge",
        "set the url to the primary");
  }

  void check_persistence() {
    if (fact(config_, "appendonly") == "no") {
      const bool snapshots = !fact(config_, "save").empty();
      add(Severity::error, "redis-not-persistent",
          snapshots ? "appendonly is off: a restart loses all events since the last snapshot, "
                      "even confirmed ones"
                    : "appendonly and snapshots are off: a restart loses all events, "
                      "even confirmed ones",
          "CONFIG SET appendonly yes, and appendfsync always; CONFIG REWRITE");
    } else if (fact(config_, "appendfsync") == "everysec") {
      add(Severity::warning, "redis-fsync",
          "appendfsync is everysec: a power failure can lose up to two seconds of confirmed events",
          "CONFIG SET appendfsync always; CONFIG REWRITE");
    } else if (fact(config_, "appendfsync") == "no") {
      add(Severity::error, "redis-fsync",
          "appendfsync is no: a power failure can lose half a minute of confirmed events",
          "CONFIG SET appendfsync always; CONFIG REWRITE");
    }
    if (fact(info_, "aof_last_write_status") == "err")
      add(Severity::error, "redis-persist-failed", "the last write of the append-only file failed",
          "check the server's disk and log");
    if (fact(info_, "rdb_last_bgsave_status") == "err")
      add(Severity::error, "redis-persist-failed",
          "the last snapshot failed; with default settings the server then refuses writes",
          "check the server's disk and log");
  }

  void check_memory() {
    const std::string_view policy = fact(config_, "maxmemory-policy");
    if (policy.empty()) return;
    const std::int64_t limit = number(fact(config_, "maxmemory"));
    if (policy != "noeviction")
      add(policy.starts_with("allkeys") ? Severity::error : Severity::warning, "redis-eviction",
          "maxmemory-policy is " + std::string(policy) +
              (policy.starts_with("allkeys")
                   ? ": when memory is full, the server deletes whole streams, even unread entries"
                   : ": when memory is full, the server deletes streams with a time to live") +
              (limit == 0 ? " (as soon as maxmemory is set)" : ""),
          "CONFIG SET maxmemory-policy noeviction; CONFIG REWRITE");
    if (limit == 0)
      add(Severity::note, "redis-no-memory-limit",
          "maxmemory is not set: streams grow until the system kills the server",
          "set maxmemory below the machine's memory: the relay then waits and nothing is lost; "
          "trim entries that all groups have read (XTRIM MINID)");
    const std::int64_t used = number(fact(info_, "used_memory"));
    if (limit > 0 && used > limit / 10 * 9)
      add(Severity::warning, "redis-memory-short",
          "more than 90 % of maxmemory is in use; at 100 % no event can be added",
          "raise maxmemory, or trim entries that all groups have read (XTRIM MINID)");
  }

  void check_size() {
    const auto limit = static_cast<std::size_t>(number(fact(config_, "proto-max-bulk-len")));
    if (limit > 0 && payload_bytes_max_ > limit)
      add(Severity::warning, "redis-bulk-length",
          "an outbox accepts payloads of " + std::to_string(payload_bytes_max_) +
              " bytes, but the server accepts fields of " + std::to_string(limit),
          "raise proto-max-bulk-len of the server, or lower payload_max of the outbox");
  }

  void check_replicas() {
    const std::int64_t there = number(fact(info_, "connected_slaves"));
    if (options_.wait_replicas > there)
      add(Severity::error, "redis-replicas-missing",
          "wait_replicas is " + std::to_string(options_.wait_replicas) +
              ", but connected replicas: " + std::to_string(there) + "; nothing is published",
          "start the replicas, or lower wait_replicas");
    if (there > 0 && options_.wait_replicas == 0 && fact(config_, "min-replicas-to-write") == "0")
      add(Severity::warning, "redis-failover-loses",
          "nothing waits for the replicas: a failover loses confirmed events that they have not "
          "received",
          "set wait_replicas of the sink and min-replicas-to-write of the server");
  }

  Status check_stream(const std::string& stream) {
    const Result<Reply> kind = ask({"TYPE", stream});
    if (!kind) return fail(kind.error());
    const std::string_view type = kind->value().text();
    if (kind->value().is_error()) {
      add(Severity::error, "redis-no-permission", "stream \"" + stream + "\": " + describe(type),
          "grant the user the key and +@stream");
      return {};
    }
    if (type == "none") return {};  // the source creates it
    if (type != "stream") {
      add(Severity::error, "redis-no-stream",
          "the key \"" + stream + "\" holds a " + std::string(type) + ", not a stream",
          "check `read`, or rename the key");
      return {};
    }
    const Result<Reply> left = ask({"PTTL", stream});
    if (!left) return fail(left.error());
    if (!left->value().is_error() && left->value().integer() >= 0)
      add(Severity::error, "redis-expires",
          "stream \"" + stream +
              "\" has a time to live: the server will delete it with its entries",
          "PERSIST " + stream);
    return check_group(stream);
  }

  Status check_group(const std::string& stream) {
    const Result<Reply> about = ask({"XINFO", "STREAM", stream});
    if (!about) return fail(about.error());
    const Result<Reply> groups = ask({"XINFO", "GROUPS", stream});
    if (!groups) return fail(groups.error());
    for (std::size_t i = 0; i < groups->value().size(); ++i) {
      const Value group = groups->value().at(i);
      if (group.named("name").text() != options_.group) continue;
      if (lost_unread(about->value(), group))
        add(Severity::error, "redis-trimmed-unread",
            "stream \"" + stream + "\" lost entries that group \"" + options_.group +
                "\" had not read",
            "do not trim the stream (MAXLEN, XTRIM, XDEL) before its groups have read it; "
            "publish the lost events again");
      return check_consumers(stream);
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

  Status check_consumers(const std::string& stream) {
    const Result<Reply> consumers = ask({"XINFO", "CONSUMERS", stream, options_.group});
    if (!consumers) return fail(consumers.error());
    const auto limit =
        std::chrono::duration_cast<std::chrono::milliseconds>(2 * options_.claim_after).count();
    for (std::size_t i = 0; i < consumers->value().size(); ++i) {
      const Value consumer = consumers->value().at(i);
      const std::int64_t pending = consumer.named("pending").integer();
      const std::int64_t idle_ms = consumer.named("idle").integer();
      if (pending == 0 || idle_ms < limit) continue;
      add(Severity::warning, "redis-consumer-gone",
          "consumer \"" + std::string(consumer.named("name").text()) + "\" of stream \"" + stream +
              "\" holds " + std::to_string(pending) + " entries and was last seen " +
              std::to_string(idle_ms / 1000) + " s ago",
          "start its relay, or another of the group, which takes them over after redeliver_after");
    }
    return {};
  }

  const Options& options_;
  Connection& connection_;
  std::size_t payload_bytes_max_;
  Facts info_;
  Facts config_;
  std::vector<Finding> findings_;
};

}  // namespace

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

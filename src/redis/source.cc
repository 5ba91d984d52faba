#include "redis/source.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "core/check.h"
#include "host/host.h"
#include "redis/errors.h"

namespace dovetail::redis {

namespace {

constexpr Duration kSlice = std::chrono::milliseconds(100);
constexpr std::size_t kFirstFetch = 64;
constexpr std::size_t kIdsPerCommand = 1000;

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "dovetail";
  return name.data();
}

std::size_t bytes_of(Value fields) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < fields.size(); ++i) bytes += fields.at(i).text().size();
  return bytes;
}

std::uint64_t whole_ms(Duration duration) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
}

}  // namespace

RedisSource::RedisSource(Options options, Clock& clock)
    : options_(std::move(options)), clock_(clock), reader_(options_.foreign, kRedisDialect) {
  if (options_.consumer.empty()) options_.consumer = host_name();
}

Status RedisSource::open() {
  connection_.close();
  fetched_.clear();
  replies_.clear();
  held_.clear();
  streams_.clear();
  fetch_count_ = std::min(kFirstFetch, options_.prefetch);
  Result<Connection> connection = Connection::open(options_, clock_);
  if (!connection) return fail(connection.error());
  connection_ = std::move(*connection);
  for (const std::string& name : options_.streams) {
    Stream& stream = streams_.emplace_back();
    stream.name = name;
    DOVETAIL_TRY(prepare(stream));
  }
  return {};
}

Status RedisSource::prepare(Stream& stream) {
  connection_.command(
      {"XGROUP", "CREATE", stream.name, options_.group, options_.from_end ? "$" : "0", "MKSTREAM"});
  const Result<Reply> reply = connection_.take_within(options_.connect_timeout);
  if (!reply) return fail(reply.error());
  const std::string_view said = reply->value().text();
  if (reply->value().is_error() && !said.starts_with("BUSYGROUP "))
    return fail(server_error("redis: the group of stream \"" + stream.name + "\"", said));
  return {};
}

Status RedisSource::read(Batch& out, const Limits& limits, std::stop_token stop) {
  const TimePoint end = clock_.now() + limits.wait_max;
  while (true) {
    give_out(out, limits);
    if (!out.empty()) return {};
    const Duration left = std::max(end - clock_.now(), Duration{0});
    DOVETAIL_TRY(fetch(limits, left, stop));
    if (fetched_.empty() && (left == Duration{0} || stop.stop_requested())) return {};
  }
}

void RedisSource::give_out(Batch& out, const Limits& limits) {
  while (!fetched_.empty() && out.size() < limits.events_max) {
    const Fetched& entry = fetched_.front();
    if (!out.empty() && out.bytes() + bytes_of(entry.fields) > limits.bytes_max) return;
    append(entry, out);
    held_.push_back(Held{entry.stream, entry.id});
    fetched_.pop_front();
  }
  if (fetched_.empty()) replies_.clear();
}

void RedisSource::append(const Fetched& entry, Batch& out) {
  Stream& stream = streams_[entry.stream];
  const std::string place = stream.name + "/" + entry.id.to_string();
  ReceivedMessage message;
  message.topic = stream.name;
  message.position = stream.position = entry.id.position(stream.position);
  message.place = place;
  if (entry.id.is_time()) message.time = WallTime(std::chrono::milliseconds(entry.id.milliseconds));
  Value payload;
  Value key;
  headers_.clear();
  for (std::size_t i = 0; i + 1 < entry.fields.size(); i += 2) {
    const std::string_view name = entry.fields.at(i).text();
    const Value value = entry.fields.at(i + 1);
    if (payload.is_nil() && name == options_.payload_field) {
      payload = value;
    } else if (key.is_nil() && name == options_.key_header) {
      key = value;
    } else {
      headers_.push_back(MessageHeader{name, value.text()});
    }
  }
  message.payload = payload.text();
  message.key = key.text();
  message.headers = headers_;
  reader_.read(message, new_event_id(), out);
  Event& event = out.events().back();
  if (payload.is_nil() && event.defect.empty())
    event.defect = out.arena().copy("the entry has no field \"" + options_.payload_field +
                                    "\"; check payload_field and the writers of the stream");
}

Status RedisSource::fetch(const Limits& limits, Duration wait_max, std::stop_token stop) {
  if (!connection_.is_open())
    return fail(Errc::unavailable, "redis: not connected; check the server");
  const std::size_t count = std::max<std::size_t>(std::min(fetch_count_, limits.events_max), 1);
  fetched_bytes_ = 0;
  bool any_fresh = false;
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    DOVETAIL_TRY(advance(i, count));
    any_fresh = any_fresh || streams_[i].phase == Phase::fresh;
  }
  if (fetched_.empty() && any_fresh) {
    DOVETAIL_TRY(read_fresh(count, std::min(wait_max, kSlice)));
  } else if (fetched_.empty()) {
    clock_.sleep(std::min(wait_max, kSlice), stop);
  }
  adapt(limits.bytes_max);
  return {};
}

// Entries may have a hundred bytes or a megabyte, but only their number can limit an answer.
void RedisSource::adapt(std::size_t bytes_max) {
  if (fetched_.empty()) return;
  const std::size_t each = fetched_bytes_ / fetched_.size() + 1;
  fetch_count_ =
      std::clamp<std::size_t>(bytes_max / each, 1, std::min(fetch_count_ * 2, options_.prefetch));
}

// Advances one stream until it has fetched entries, must wait, or has caught up.
Status RedisSource::advance(std::size_t index, std::size_t count) {
  Stream& stream = streams_[index];
  if (clock_.now() < stream.look_at) return {};
  if (stream.phase == Phase::fresh) {
    const Result<std::optional<EntryId>> others = oldest_of_others(stream);
    if (!others) return fail(others.error());
    stream.look_at = clock_.now() + options_.redeliver_after / 2;
    if (!*others) return {};
    if (!options_.exclusive) return sweep(index, count);
    begin_recovery(stream);
  }
  while (stream.phase == Phase::recovery && fetched_.empty() && clock_.now() >= stream.look_at)
    DOVETAIL_TRY(recover(index, count));
  return {};
}

void RedisSource::begin_recovery(Stream& stream) {
  stream.phase = Phase::recovery;
  stream.last_pending = EntryId{};
  stream.look_at = clock_.now();
}

// Takes over entries that others have held too long, and reads them together with our own pending
// ones, in order. An exclusive consumer stops before the first entry that another one holds.
Status RedisSource::recover(std::size_t index, std::size_t count) {
  Stream& stream = streams_[index];
  Result<std::optional<EntryId>> others = oldest_of_others(stream);
  if (!others) return fail(others.error());
  if (*others && (options_.exclusive || stream.last_pending == EntryId{})) {
    DOVETAIL_TRY(claim(stream));
    others = oldest_of_others(stream);
    if (!others) return fail(others.error());
  }
  if (!options_.exclusive) others->reset();
  begin_read(2, count);
  connection_.add("STREAMS");
  connection_.add(stream.name);
  connection_.add(stream.last_pending.to_string());
  Result<Reply> reply = answer("cannot read pending entries");
  if (!reply) return fail(reply.error());
  const Value entries = reply->value().at(0).at(1);
  if (keep(index, entries, *others) == 0) {
    // None of our entries is left, or none may be read yet.
    if (!*others) stream.phase = Phase::fresh;
    stream.look_at = clock_.now() + (*others ? kSlice : options_.redeliver_after / 2);
  }
  replies_.push_back(std::move(*reply));
  return {};
}

Status RedisSource::claim(const Stream& stream) {
  const std::string idle = std::to_string(whole_ms(options_.redeliver_after));
  std::string cursor = "0-0";
  do {
    connection_.command({"XAUTOCLAIM", stream.name, options_.group, options_.consumer, idle, cursor,
                         "COUNT", "1000", "JUSTID"});
    const Result<Reply> reply = answer("cannot take over entries (XAUTOCLAIM)");
    if (!reply) return fail(reply.error());
    cursor = reply->value().at(0).text();
  } while (!cursor.empty() && cursor != "0-0");
  return {};
}

// The first entry that another consumer of the group holds; none: no other holds one.
Result<std::optional<EntryId>> RedisSource::oldest_of_others(const Stream& stream) {
  connection_.command({"XPENDING", stream.name, options_.group});
  const Result<Reply> reply = answer("cannot list pending entries (XPENDING)");
  if (!reply) return fail(reply.error());
  const Value consumers = reply->value().at(3);
  std::optional<EntryId> oldest;
  for (std::size_t i = 0; i < consumers.size(); ++i) {
    const std::string_view name = consumers.at(i).at(0).text();
    if (name == options_.consumer) continue;
    connection_.command({"XPENDING", stream.name, options_.group, "-", "+", "1", name});
    const Result<Reply> first = answer("cannot list pending entries (XPENDING)");
    if (!first) return fail(first.error());
    const auto id = EntryId::parse(first->value().at(0).at(0).text());
    if (id && (!oldest || *id < *oldest)) oldest = id;
  }
  return oldest;
}

void RedisSource::begin_read(std::size_t arguments, std::size_t count) {
  connection_.begin(7 + arguments);
  connection_.add("XREADGROUP");
  connection_.add("GROUP");
  connection_.add(options_.group);
  connection_.add(options_.consumer);
  connection_.add("COUNT");
  connection_.add_number(count);
}

Status RedisSource::read_fresh(std::size_t count, Duration wait_max) {
  std::vector<std::size_t> wanted;
  for (std::size_t i = 0; i < streams_.size(); ++i)
    if (streams_[i].phase == Phase::fresh) wanted.push_back(i);
  const std::uint64_t block_ms = whole_ms(wait_max);
  begin_read(2 * wanted.size() + (block_ms > 0 ? 2 : 0), count);
  if (block_ms > 0) {
    connection_.add("BLOCK");
    connection_.add_number(block_ms);
  }
  connection_.add("STREAMS");
  for (const std::size_t i : wanted) connection_.add(streams_[i].name);
  for (std::size_t i = 0; i < wanted.size(); ++i) connection_.add(">");
  Result<Reply> reply = answer("reading", wait_max);
  if (!reply) return fail(reply.error());
  for (std::size_t i = 0; i < reply->value().size(); ++i) {
    const Value one = reply->value().at(i);
    for (const std::size_t index : wanted)
      if (streams_[index].name == one.at(0).text()) DOVETAIL_TRY(keep_fresh(index, one.at(1)));
  }
  replies_.push_back(std::move(*reply));
  return {};
}

// New entries come after those that other consumers hold. While those are not acknowledged, ours
// stay pending and are read again later.
Status RedisSource::keep_fresh(std::size_t index, Value entries) {
  if (options_.exclusive) {
    const Result<std::optional<EntryId>> others = oldest_of_others(streams_[index]);
    if (!others) return fail(others.error());
    const auto first = EntryId::parse(entries.at(0).at(0).text());
    if (*others && first && **others < *first) {
      begin_recovery(streams_[index]);
      return {};
    }
  }
  keep(index, entries);
  return {};
}

// Takes over entries of consumers that died while we read. The server also returns our own entries.
Status RedisSource::sweep(std::size_t index, std::size_t count) {
  Stream& stream = streams_[index];
  connection_.begin(8);
  connection_.add("XAUTOCLAIM");
  connection_.add(stream.name);
  connection_.add(options_.group);
  connection_.add(options_.consumer);
  connection_.add_number(whole_ms(options_.redeliver_after));
  connection_.add(stream.cursor);
  connection_.add("COUNT");
  connection_.add_number(count);
  Result<Reply> reply = answer("cannot take over entries (XAUTOCLAIM)");
  if (!reply) return fail(reply.error());
  stream.cursor = reply->value().at(0).text();
  if (stream.cursor != "0-0") stream.look_at = clock_.now();
  keep(index, reply->value().at(1));
  replies_.push_back(std::move(*reply));
  return {};
}

std::size_t RedisSource::keep(std::size_t index, Value entries, std::optional<EntryId> before) {
  Stream& stream = streams_[index];
  std::size_t seen = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const Value entry = entries.at(i);
    const auto id = EntryId::parse(entry.at(0).text());
    if (!id) continue;  // servers before 7.0 return nil for a deleted entry
    if (before && *id > *before) break;
    ++seen;
    if (stream.phase == Phase::recovery) stream.last_pending = *id;
    if (is_known(index, *id)) continue;
    if (!entry.at(1).is_array()) {
      // Deleted from the stream: it can never be read, so it is acknowledged.
      ++deleted_;
      stream.settled.push_back(*id);
      continue;
    }
    fetched_bytes_ += bytes_of(entry.at(1));
    fetched_.push_back(Fetched{index, *id, entry.at(1)});
  }
  return seen;
}

// Whether this session has already read the entry.
bool RedisSource::is_known(std::size_t index, const EntryId& id) const {
  const Stream& stream = streams_[index];
  if (stream.position < id.position(0)) return false;
  const auto is_it = [&](const auto& one) { return one.stream == index && one.id == id; };
  return std::ranges::any_of(held_, is_it) || std::ranges::any_of(fetched_, is_it) ||
         std::ranges::find(stream.settled, id) != stream.settled.end();
}

Result<Reply> RedisSource::answer(std::string_view what, Duration wait_max) {
  Result<Reply> reply = connection_.take_within(wait_max + options_.request_timeout);
  if (reply && reply->value().is_error()) {
    connection_.close();
    return fail(server_error("redis: " + std::string(what), reply->value().text()));
  }
  return reply;
}

Status RedisSource::settle(const Batch& batch, std::span<const Settled> fates) {
  DOVETAIL_CHECK(fates.size() == batch.size() && held_.size() >= batch.size());
  for (std::size_t i = 0; i < batch.size(); ++i) {
    streams_[held_.front().stream].settled.push_back(held_.front().id);
    held_.pop_front();
  }
  return {};
}

Status RedisSource::flush() {
  const std::array<std::string_view, 2> verbs = {"XACK", "XDEL"};
  const std::size_t verbs_used = options_.delete_settled ? 2 : 1;
  std::size_t sent = 0;
  for (const Stream& stream : streams_) {
    for (std::size_t from = 0; from < stream.settled.size(); from += kIdsPerCommand) {
      const std::size_t ids = std::min(kIdsPerCommand, stream.settled.size() - from);
      for (std::size_t v = 0; v < verbs_used; ++v, ++sent) {
        connection_.begin((v == 0 ? 3 : 2) + ids);
        connection_.add(verbs[v]);
        connection_.add(stream.name);
        if (v == 0) connection_.add(options_.group);
        for (std::size_t i = from; i < from + ids; ++i)
          connection_.add(stream.settled[i].to_string());
      }
    }
  }
  for (; sent > 0; --sent)
    if (const Result<Reply> reply = answer("acknowledging"); !reply) return fail(reply.error());
  for (Stream& stream : streams_) stream.settled.clear();
  return {};
}

std::unique_ptr<Source> make_source(Options options, Duration call_max, Clock& clock) {
  options.request_timeout = std::min(options.request_timeout, call_max);
  return std::make_unique<RedisSource>(std::move(options), clock);
}

}  // namespace dovetail::redis

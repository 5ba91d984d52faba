// Our sink beside pipelines of XADD by hiredis, each entry with the same fields, on a server that
// syncs every write.
#include <fmt/format.h>
#include <hiredis/hiredis.h>

#include <array>

#include "brokers.h"
#include "core/handle.h"
#include "host/host.h"
#include "redis/sink.h"

namespace dovetail::bench {

namespace {

constexpr std::size_t kEvents = 50'000;
constexpr std::size_t kBatch = 1000;
constexpr std::size_t kInFlight = 4;
constexpr const char* kStream = "bench";

using Context = Handle<redisContext, redisFree>;

Context connect(const servers::Server& server) {
  Context context(redisConnect(server.field("host").c_str(), server.port()));
  require(context && context->err == 0, "hiredis cannot connect; check the server");
  return context;
}

void run(redisContext* context, const char* command, const char* argument) {
  void* const reply = redisCommand(context, command, argument);
  require(reply != nullptr, "a command failed; check the server");
  freeReplyObject(reply);
}

// The fields that MessageWriter makes, written by hand.
void append(redisContext* context, const Event& event) {
  const std::string id = event.id.to_string();
  const std::string version = std::to_string(event.aggregate_version);
  constexpr std::string_view kTrace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  const std::array<std::string_view, 27> words = {"XADD",
                                                  kStream,
                                                  "*",
                                                  "key",
                                                  event.aggregate_id,
                                                  "ce_specversion",
                                                  "1.0",
                                                  "ce_id",
                                                  id,
                                                  "ce_source",
                                                  "dovetail",
                                                  "ce_type",
                                                  event.type,
                                                  "ce_time",
                                                  "2026-01-01T00:00:00.000000Z",
                                                  "ce_subject",
                                                  event.aggregate_id,
                                                  "ce_aggregatetype",
                                                  event.aggregate_type,
                                                  "ce_aggregateversion",
                                                  version,
                                                  "content-type",
                                                  event.content_type,
                                                  "traceparent",
                                                  kTrace,
                                                  "data",
                                                  event.payload};
  std::array<const char*, words.size()> texts;
  std::array<std::size_t, words.size()> sizes;
  for (std::size_t i = 0; i < words.size(); ++i) {
    texts[i] = words[i].data();
    sizes[i] = words[i].size();
  }
  require(redisAppendCommandArgv(context, static_cast<int>(words.size()), texts.data(),
                                 sizes.data()) == REDIS_OK,
          "hiredis cannot append");
}

Speed bare_loop(const servers::Server& server, const std::vector<const Event*>& events) {
  const Context context = connect(server);
  run(context.get(), "DEL %s", kStream);
  return measured(events.size(), [&] {
    std::size_t sent = 0;
    std::size_t confirmed = 0;
    while (confirmed < events.size()) {
      while (sent < events.size() && sent - confirmed < kInFlight * kBatch) {
        for (std::size_t i = 0; i < kBatch; ++i) append(context.get(), *events[sent++]);
        int done = 0;
        while (done == 0)
          require(redisBufferWrite(context.get(), &done) == REDIS_OK, "hiredis cannot write");
      }
      for (std::size_t i = 0; i < kBatch; ++i, ++confirmed) {
        void* reply = nullptr;
        require(redisGetReply(context.get(), &reply) == REDIS_OK, "hiredis has no reply");
        const auto* const id = static_cast<redisReply*>(reply);
        require(id->type == REDIS_REPLY_STRING, "an event was not confirmed");
        freeReplyObject(reply);
      }
    }
  });
}

std::unique_ptr<Sink> our_sink(const servers::Server& server) {
  run(connect(server).get(), "DEL %s", kStream);
  redis::Options options;
  options.host = server.field("host");
  options.port = static_cast<std::uint16_t>(server.port());
  return std::make_unique<redis::RedisSink>(options, system_clock());
}

// Of the first entry.
std::int64_t bytes_of(const servers::Server& server) {
  const Context context = connect(server);
  void* const reply = redisCommand(context.get(), "XRANGE %s - + COUNT 1", kStream);
  const auto* const entries = static_cast<redisReply*>(reply);
  require(entries != nullptr && entries->elements == 1, "the stream is empty");
  std::size_t bytes = 0;
  const redisReply* const fields = entries->element[0]->element[1];
  for (std::size_t i = 0; i < fields->elements; ++i) bytes += fields->element[i]->len;
  freeReplyObject(reply);
  return static_cast<std::int64_t>(bytes);
}

}  // namespace

Place redis_place() { return {"redis", kStream, our_sink}; }

void bench_redis(Report& report) {
  const Broker broker("redis");
  const BenchEvents events(kEvents, kStream);
  compare(report,
          {"redis", [&] { return our_sink(broker.server()); },
           [&](const auto& all) { return bare_loop(broker.server(), all); },
           [&] { return bytes_of(broker.server()); }},
          events);
}

}  // namespace dovetail::bench

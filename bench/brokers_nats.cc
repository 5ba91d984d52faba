// Our sink beside the C client of NATS, which publishes with a reply subject of each event's own
// and counts the stream's answers. Not by its own asynchronous publishing, which keeps a record of
// each event until a time limit.
#include <fmt/format.h>
#include <nats/nats.h>

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "brokers.h"
#include "core/handle.h"
#include "host/host.h"
#include "nats/connection.h"
#include "nats/jetstream.h"
#include "nats/sink.h"

namespace dovetail::bench {

namespace {

constexpr std::size_t kEvents = 50'000;
constexpr std::size_t kInFlight = 4000;
constexpr const char* kStream = "BENCH";
constexpr const char* kSubject = "bench.orders";

dovetail::nats::ConnectionOptions options_for(const servers::Server& server) {
  dovetail::nats::ConnectionOptions options;
  options.servers = {{server.field("host"), static_cast<std::uint16_t>(server.port())}};
  options.user = server.field("user");
  options.password = server.field("password");
  return options;
}

// A new and empty stream, which remembers no ids; or how many bytes it holds.
std::int64_t stream(const servers::Server& server, bool make_new) {
  auto connection = dovetail::nats::Connection::open(options_for(server));
  require(connection.has_value(), connection ? "" : connection.error().text);
  dovetail::nats::JetStream jetstream(*connection, "", std::chrono::seconds(30));
  const std::string name = kStream;
  if (make_new) {
    jetstream.ask("STREAM.DELETE." + name);
    const auto made = jetstream.require(
        "STREAM.CREATE." + name,
        R"({"name":"BENCH","subjects":["bench.>"],"storage":"file","num_replicas":1})");
    require(made.has_value(), made ? "" : made.error().text);
  }
  const auto info = jetstream.require("STREAM.INFO." + name);
  require(info.has_value(), info ? "" : info.error().text);
  return info->json().get("state").get("bytes").number_or(0);
}

// The headers that MessageWriter makes, written by hand.
natsStatus publish(natsConnection* connection, const Event& event, const char* reply) {
  natsMsg* made = nullptr;
  natsStatus status = natsMsg_Create(&made, kSubject, reply, event.payload.data(),
                                     static_cast<int>(event.payload.size()));
  const Handle<natsMsg, natsMsg_Destroy> message(made);
  const std::string id = event.id.to_string();
  const std::string version = std::to_string(event.aggregate_version);
  const std::string key(event.aggregate_id);
  const std::string type(event.type);
  const std::string aggregate_type(event.aggregate_type);
  const std::string content_type(event.content_type);
  const std::array<std::pair<const char*, const char*>, 11> headers{{
      {"Nats-Msg-Id", id.c_str()},
      {"ce-specversion", "1.0"},
      {"ce-id", id.c_str()},
      {"ce-source", "dovetail"},
      {"ce-type", type.c_str()},
      {"ce-time", "2026-01-01T00:00:00.000000Z"},
      {"ce-subject", key.c_str()},
      {"ce-aggregatetype", aggregate_type.c_str()},
      {"ce-aggregateversion", version.c_str()},
      {"ce-datacontenttype", content_type.c_str()},
      {"traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
  }};
  for (const auto& [name, value] : headers)
    if (status == NATS_OK) status = natsMsgHeader_Set(made, name, value);
  return status == NATS_OK ? natsConnection_PublishMsg(connection, made) : status;
}

struct Answers {
  std::atomic<std::size_t> stored{0};
  std::atomic<std::size_t> refused{0};
};

// In a thread of the client's.
void on_answer(natsConnection*, natsSubscription*, natsMsg* message, void* closure) {
  auto& answers = *static_cast<Answers*>(closure);
  const std::string_view text(natsMsg_GetData(message),
                              static_cast<std::size_t>(natsMsg_GetDataLength(message)));
  const bool is_stored = text.find("\"seq\":") != std::string_view::npos &&
                         text.find("\"error\"") == std::string_view::npos;
  (is_stored ? answers.stored : answers.refused).fetch_add(1, std::memory_order_relaxed);
  natsMsg_Destroy(message);
}

Speed bare_loop(const servers::Server& server, const std::vector<const Event*>& events) {
  stream(server, true);
  natsOptions* options = nullptr;
  require(natsOptions_Create(&options) == NATS_OK, "libnats has no options");
  const std::string url = fmt::format("nats://{}:{}", server.field("host"), server.port());
  natsOptions_SetURL(options, url.c_str());
  natsOptions_SetUserInfo(options, server.field("user").c_str(), server.field("password").c_str());
  natsConnection* opened = nullptr;
  const natsStatus status = natsConnection_Connect(&opened, options);
  natsOptions_Destroy(options);
  require(status == NATS_OK, "libnats cannot connect");
  const Handle<natsConnection, natsConnection_Destroy> connection(opened);
  const std::string inbox = "_INBOX." + new_event_id().to_string() + ".";
  Answers answers;
  natsSubscription* subscribed = nullptr;
  require(natsConnection_Subscribe(&subscribed, opened, (inbox + "*").c_str(), on_answer,
                                   &answers) == NATS_OK,
          "libnats cannot subscribe");
  const Handle<natsSubscription, natsSubscription_Destroy> subscription(subscribed);
  return measured(events.size(), [&] {
    for (std::size_t sent = 0; sent < events.size(); ++sent) {
      while (sent - answers.stored >= kInFlight && answers.refused == 0)
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      const std::string reply = inbox + std::to_string(sent);
      require(publish(opened, *events[sent], reply.c_str()) == NATS_OK, "libnats cannot publish");
    }
    while (answers.stored < events.size() && answers.refused == 0)
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    require(answers.refused == 0, "an event was not confirmed");
  });
}

std::unique_ptr<Sink> our_sink(const servers::Server& server) {
  stream(server, true);
  dovetail::nats::Options options{{options_for(server)}};
  return std::make_unique<dovetail::nats::NatsSink>(options, system_clock());
}

}  // namespace

Place nats_place() { return {"nats", kSubject, our_sink}; }

void bench_nats(Report& report) {
  const Broker broker("nats");
  const BenchEvents events(kEvents, kSubject);
  compare(report,
          {"nats", [&] { return our_sink(broker.server()); },
           [&](const auto& all) { return bare_loop(broker.server(), all); },
           [&] { return stream(broker.server(), false); }},
          events);
}

}  // namespace dovetail::bench

#include "proofs/brokers/road.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "kit/free_port.h"

#ifdef DOVETAIL_HAS_NATS
#include "nats/test_server.h"
#endif

namespace dovetail::live {
namespace {

std::string at(const servers::Server& server) { return "127.0.0.1:" + server.field("port"); }

// A quorum queue of this server does not survive a crash in its first second.
[[maybe_unused]] RoadStores rabbitmq_stores(const servers::Server& server) {
  const std::string store = "url = \"amqp://" + at(server) +
                            "/\"\nsettings = { declare = true, queue_type = \"classic\" }\n";
  return {store, store};
}

[[maybe_unused]] RoadStores redis_stores(const servers::Server& server) {
  const std::string url = "url = \"redis://" + at(server) + "/0\"\n";
  return {url, url};
}

// No server: our sink posts to our endpoint.
[[maybe_unused]] RoadStores http_stores(const servers::Server&) {
  const std::string url = "url = \"http://127.0.0.1:" + std::to_string(free_port()) + "/events\"\n";
  return {url + "settings = { allow_private = true }\n", url};
}

#ifdef DOVETAIL_HAS_NATS
RoadStores nats_stores(const servers::Server& server) {
  // The operator must create the stream.
  nats::Operator admin(nats::connection_to(server));
  admin.make_stream("ROAD", "orders.events");
  ::setenv("DOVETAIL_ROAD_PASSWORD", server.field("password").c_str(), 1);
  const std::string store = "url = \"nats://" + at(server) + "\"\nuser = \"" +
                            server.field("user") +
                            "\"\npassword_env = \"DOVETAIL_ROAD_PASSWORD\"\n";
  return {store, store};
}
#endif

}  // namespace

std::vector<RoadBroker> road_brokers() {
  return {
#ifdef DOVETAIL_HAS_KAFKA
      {"kafka", "kafka", kafka_stores},
#endif
#ifdef DOVETAIL_HAS_NATS
      {"nats", "nats", nats_stores},
#endif
#ifdef DOVETAIL_HAS_RABBITMQ
      {"rabbitmq", "rabbitmq", rabbitmq_stores},
#endif
#ifdef DOVETAIL_HAS_REDIS
      {"redis", "redis", redis_stores},
#endif
#ifdef DOVETAIL_HAS_HTTP
      {"http", "", http_stores},
#endif
  };
}

}  // namespace dovetail::live

#include "live/brokers_road.h"

#include <gtest/gtest.h>

#include <cstdlib>

#ifdef DOVETAIL_HAS_NATS
#include "nats/test_server.h"
#endif

namespace dovetail::live {
namespace {

std::string at(const servers::Server& server) { return "127.0.0.1:" + server.field("port"); }

// A quorum queue of this server does not outlive a crash in the first second of its life.
[[maybe_unused]] RoadStores rabbitmq_stores(const servers::Server& server) {
  const std::string url = "url = \"amqp://" + at(server) + "/\"\n";
  const std::string settings = "declare = true\nqueue_type = \"classic\"\n";
  return {url + "[store.bus-out.settings]\n" + settings,
          url + "read = [\"orders.events\"]\n[store.bus-in.settings]\n" + settings};
}

[[maybe_unused]] RoadStores redis_stores(const servers::Server& server) {
  const std::string url = "url = \"redis://" + at(server) + "/0\"\n";
  return {url, url + "read = [\"orders.events\"]\n"};
}

#ifdef DOVETAIL_HAS_NATS
RoadStores nats_stores(const servers::Server& server) {
  // The stream is the operator's to make.
  nats::Operator admin(nats::connection_to(server));
  admin.make_stream("ROAD", "orders.events");
  setenv("DOVETAIL_ROAD_PASSWORD", server.field("password").c_str(), 1);
  const std::string store = "url = \"nats://" + at(server) + "\"\nuser = \"" +
                            server.field("user") +
                            "\"\npassword_env = \"DOVETAIL_ROAD_PASSWORD\"\n";
  return {store, store + "read = [\"orders.events\"]\n"};
}
#endif

}  // namespace

std::vector<RoadBroker> road_brokers() {
  return {
#ifdef DOVETAIL_HAS_NATS
      {"nats", "nats", nats_stores},
#endif
#ifdef DOVETAIL_HAS_RABBITMQ
      {"rabbitmq", "rabbitmq", rabbitmq_stores},
#endif
#ifdef DOVETAIL_HAS_REDIS
      {"redis", "redis", redis_stores},
#endif
  };
}

}  // namespace dovetail::live

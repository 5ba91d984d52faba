// The brokers of the whole path, each with its test server and its stores in the config.
#pragma once

#include <string>
#include <vector>

#include "servers/servers.h"

namespace dovetail::live {

// The content of [store.bus-out] and [store.bus-in]. One fills `topic`, the other reads it; the
// topic exists if the broker does not create it by itself.
struct RoadStores {
  std::string out;
  std::string in;
  std::string topic = "orders.events";
};

struct RoadBroker {
  const char* name;
  const char* server;  // for servers.py; empty: none needed
  RoadStores (*stores)(const servers::Server& server);
};

// Those in this build.
std::vector<RoadBroker> road_brokers();

RoadStores kafka_stores(const servers::Server& server);

}  // namespace dovetail::live

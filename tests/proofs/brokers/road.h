// The brokers of the whole road, each with its server of the tests and its stores in the config.
#pragma once

#include <string>
#include <vector>

#include "servers/servers.h"

namespace dovetail::live {

// What stands below [store.bus-out] and [store.bus-in]. `topic` is filled by the one and read by
// the other, and is there already where the broker makes none by itself.
struct RoadStores {
  std::string out;
  std::string in;
  std::string topic = "orders.events";
};

struct RoadBroker {
  const char* name;
  const char* server;  // of servers.py; empty: needs none
  RoadStores (*stores)(const servers::Server& server);
};

// Those that were built.
std::vector<RoadBroker> road_brokers();

RoadStores kafka_stores(const servers::Server& server);

}  // namespace dovetail::live

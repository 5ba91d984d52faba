#include "live/brokers_road.h"

namespace dovetail::live {
namespace {

std::string at(const servers::Server& server) { return "127.0.0.1:" + server.field("port"); }

[[maybe_unused]] RoadStores redis_stores(const servers::Server& server) {
  const std::string url = "url = \"redis://" + at(server) + "/0\"\n";
  return {url, url + "read = [\"orders.events\"]\n"};
}

}  // namespace

std::vector<RoadBroker> road_brokers() {
  return {
#ifdef DOVETAIL_HAS_REDIS
      {"redis", "redis", redis_stores},
#endif
  };
}

}  // namespace dovetail::live

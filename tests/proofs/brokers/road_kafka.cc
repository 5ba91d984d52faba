#include "kafka/test_cluster.h"
#include "proofs/brokers/road.h"

namespace dovetail::live {

// Several partitions: a key stays in one of them.
RoadStores kafka_stores(const servers::Server& server) {
  kafka::TestCluster cluster(server);
  cluster.create_topic("orders.events", 6);
  const std::string store =
      "url = \"kafka://" + cluster.address() + "\"\nsettings = { single_node = true }\n";
  return {store, store, cluster.prefix() + "orders.events"};
}

}  // namespace dovetail::live

// What a Kafka cluster says about itself and its topics.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/clock.h"
#include "dovetail/result.h"
#include "kafka/client.h"

namespace dovetail::kafka {

using Settings = std::map<std::string, std::string, std::less<>>;

// The settings in force. rejected: the topic does not exist, or the user may not ask. unavailable:
// no answer within `timeout`.
Result<Settings> topic_settings(rd_kafka_s* client, const std::string& topic, Duration timeout);
Result<Settings> broker_settings(rd_kafka_s* client, std::int32_t broker, Duration timeout);

struct TopicShape {
  std::string name;
  std::size_t partitions = 0;
  std::size_t replicas_min = 0;  // of the partition with the fewest
};
struct ClusterShape {
  std::vector<std::int32_t> brokers;
  std::vector<TopicShape> topics;  // without Kafka's internal topics
};
Result<ClusterShape> cluster_shape(rd_kafka_s* client, Duration timeout);

}  // namespace dovetail::kafka

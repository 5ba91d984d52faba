#include "kafka/admin.h"

#include <librdkafka/rdkafka.h>

#include <algorithm>

namespace dovetail::kafka {

namespace {

Settings settings_of(const rd_kafka_ConfigResource_t* resource) {
  Settings settings;
  std::size_t count = 0;
  const rd_kafka_ConfigEntry_t** entries = rd_kafka_ConfigResource_configs(resource, &count);
  for (std::size_t i = 0; i < count; ++i) {
    // Null for a secret: the broker never reveals its value.
    const char* const value = rd_kafka_ConfigEntry_value(entries[i]);
    if (value != nullptr) settings.emplace(rd_kafka_ConfigEntry_name(entries[i]), value);
  }
  return settings;
}

Result<Settings> describe(rd_kafka_s* client, rd_kafka_ResourceType_t type, const std::string& name,
                          Duration timeout) {
  const dovetail::Handle<rd_kafka_ConfigResource_t, rd_kafka_ConfigResource_destroy> wanted(
      rd_kafka_ConfigResource_new(type, name.c_str()));
  const dovetail::Handle<rd_kafka_AdminOptions_t, rd_kafka_AdminOptions_destroy> options(
      rd_kafka_AdminOptions_new(client, RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS));
  const int timeout_ms = to_milliseconds(timeout);
  rd_kafka_AdminOptions_set_request_timeout(options.get(), timeout_ms, nullptr, 0);
  const Handle<rd_kafka_queue_s> queue(rd_kafka_queue_new(client));
  rd_kafka_ConfigResource_t* list = wanted.get();
  rd_kafka_DescribeConfigs(client, &list, 1, options.get(), queue.get());
  // The request times out first, so the answer cannot arrive after the queue is gone.
  const Handle<rd_kafka_op_s> event(rd_kafka_queue_poll(queue.get(), timeout_ms + 1000));
  const std::string what = "Kafka: cannot read the settings of " + name + ": ";
  if (event == nullptr)
    return fail(Errc::unavailable, what + "no answer; check that the brokers are reachable");
  if (rd_kafka_event_error(event.get()) != RD_KAFKA_RESP_ERR_NO_ERROR)
    return fail(Errc::unavailable, what + rd_kafka_event_error_string(event.get()) +
                                       "; check that the brokers are reachable");
  const rd_kafka_DescribeConfigs_result_t* result =
      rd_kafka_event_DescribeConfigs_result(event.get());
  std::size_t count = 0;
  const rd_kafka_ConfigResource_t** resources =
      rd_kafka_DescribeConfigs_result_resources(result, &count);
  if (count != 1) return fail(Errc::unavailable, what + "incomplete answer; check the brokers");
  const rd_kafka_resp_err_t code = rd_kafka_ConfigResource_error(resources[0]);
  if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
    return fail(Errc::rejected,
                what + rd_kafka_err2str(code) +
                    "; check that it exists and that this user may describe its configuration");
  return settings_of(resources[0]);
}

}  // namespace

Result<Settings> topic_settings(rd_kafka_s* client, const std::string& topic, Duration timeout) {
  return describe(client, RD_KAFKA_RESOURCE_TOPIC, topic, timeout);
}

Result<Settings> broker_settings(rd_kafka_s* client, std::int32_t broker, Duration timeout) {
  return describe(client, RD_KAFKA_RESOURCE_BROKER, std::to_string(broker), timeout);
}

Result<ClusterShape> cluster_shape(rd_kafka_s* client, Duration timeout) {
  const rd_kafka_metadata_t* answer = nullptr;
  const rd_kafka_resp_err_t code =
      rd_kafka_metadata(client, 1, nullptr, &answer, to_milliseconds(timeout));
  if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
    return fail(Errc::unavailable, std::string("Kafka: cannot list the topics: ") +
                                       rd_kafka_err2str(code) + "; check the brokers");
  const dovetail::Handle<const rd_kafka_metadata_t, rd_kafka_metadata_destroy> metadata(answer);
  ClusterShape shape;
  for (int i = 0; i < metadata->broker_cnt; ++i) shape.brokers.push_back(metadata->brokers[i].id);
  for (int i = 0; i < metadata->topic_cnt; ++i) {
    const rd_kafka_metadata_topic_t& topic = metadata->topics[i];
    if (std::string_view(topic.topic).starts_with("__")) continue;
    TopicShape one{topic.topic, static_cast<std::size_t>(topic.partition_cnt), 0};
    for (int p = 0; p < topic.partition_cnt; ++p) {
      const auto replicas = static_cast<std::size_t>(topic.partitions[p].replica_cnt);
      one.replicas_min = p == 0 ? replicas : std::min(one.replicas_min, replicas);
    }
    shape.topics.push_back(std::move(one));
  }
  return shape;
}

}  // namespace dovetail::kafka

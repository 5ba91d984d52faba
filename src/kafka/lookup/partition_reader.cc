#include "kafka/lookup/partition_reader.h"

#include <librdkafka/rdkafka.h>

#include <utility>

#include "kafka/decoder.h"

namespace dovetail::kafka {

Result<Handle<rd_kafka_s>> open_reader(const Options& options, ConnectErrors& errors) {
  Options alone = options;
  // Partitions are assigned by hand, so the group is never joined.
  if (alone.group.empty()) alone.group = "dovetail-reader";
  Result<Properties> properties = properties_of(alone, Role::consumer);
  if (!properties) return fail(properties.error());
  properties->emplace_back("enable.partition.eof", "true");
  auto configuration = make_configuration(*properties);
  if (!configuration) return fail(configuration.error());
  rd_kafka_conf_set_opaque(configuration->get(), &errors);
  rd_kafka_conf_set_error_cb(configuration->get(),
                             [](rd_kafka_t*, int code, const char* text, void* opaque) {
                               static_cast<ConnectErrors*>(opaque)->note(code, text);
                             });
  auto client = make_client(Role::consumer, std::move(*configuration));
  if (!client) return fail(client.error());
  rd_kafka_s* const raw = client->get();
  DOVETAIL_TRY(wait_for_broker(raw, options, errors, [raw] { rd_kafka_poll(raw, 0); }));
  rd_kafka_poll_set_consumer(raw);
  return client;
}

Result<OffsetRange> stored_offsets(rd_kafka_s* client, const std::string& topic,
                                   std::int32_t partition, Duration timeout) {
  OffsetRange range{.partition = partition};
  const rd_kafka_resp_err_t code = rd_kafka_query_watermark_offsets(
      client, topic.c_str(), partition, &range.next, &range.end, to_milliseconds(timeout));
  if (code == RD_KAFKA_RESP_ERR_NO_ERROR) return range;
  return fail(Errc::unavailable, "Kafka: cannot read the range of offsets in " +
                                     partition_name(topic, partition) + ": " +
                                     rd_kafka_err2str(code) + "; check the brokers");
}

Status assign(rd_kafka_s* client, const std::string& topic, std::span<const OffsetRange> ranges) {
  const Handle<rd_kafka_topic_partition_list_s> list(
      rd_kafka_topic_partition_list_new(static_cast<int>(ranges.size())));
  for (const OffsetRange& range : ranges)
    if (range.next < range.end)
      rd_kafka_topic_partition_list_add(list.get(), topic.c_str(), range.partition)->offset =
          range.next;
  const rd_kafka_resp_err_t code = rd_kafka_assign(client, list.get());
  if (code == RD_KAFKA_RESP_ERR_NO_ERROR) return {};
  return fail(Errc::unavailable, "Kafka: cannot read " + topic + ": " + rd_kafka_err2str(code) +
                                     "; check the brokers");
}

bool is_passing(const rd_kafka_message_s& message) {
  return message.err == RD_KAFKA_RESP_ERR__TRANSPORT ||
         message.err == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN;
}

}  // namespace dovetail::kafka

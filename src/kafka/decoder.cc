#include "kafka/decoder.h"

#include <librdkafka/rdkafka.h>

#include "host/host.h"

namespace dovetail::kafka {

namespace {

std::string_view view_of(const void* bytes, std::size_t size) {
  return {static_cast<const char*>(bytes), size};
}

}  // namespace

std::string partition_name(std::string_view topic, std::int32_t partition) {
  return std::string(topic) + "/" + std::to_string(partition);
}

Decoder::Decoder(const Options& options)
    : reader_(options.foreign, kKafkaDialect), prefix_(options.topic_prefix.size()) {}

void Decoder::read(const rd_kafka_message_s& message, Batch& out) {
  headers_.clear();
  rd_kafka_headers_t* headers = nullptr;
  if (rd_kafka_message_headers(&message, &headers) == RD_KAFKA_RESP_ERR_NO_ERROR) {
    const char* name = nullptr;
    const void* value = nullptr;
    std::size_t size = 0;
    for (std::size_t i = 0;
         rd_kafka_header_get_all(headers, i, &name, &value, &size) == RD_KAFKA_RESP_ERR_NO_ERROR;
         ++i)
      headers_.push_back({name, view_of(value, value == nullptr ? 0 : size)});
  }
  const std::string_view topic = rd_kafka_topic_name(message.rkt);
  place_ = partition_name(topic, message.partition) + "/" + std::to_string(message.offset);
  ReceivedMessage received;
  received.topic = topic.substr(prefix_);
  received.key = view_of(message.key, message.key_len);
  received.headers = headers_;
  received.payload = view_of(message.payload, message.len);
  received.position = message.offset + 1;
  received.place = place_;
  const std::int64_t time_ms = rd_kafka_message_timestamp(&message, nullptr);
  if (time_ms >= 0) received.time = WallTime(std::chrono::milliseconds(time_ms));
  reader_.read(received, new_event_id(), out);
}

}  // namespace dovetail::kafka

// Messages of librdkafka as events.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/message/message.h"
#include "kafka/options.h"

struct rd_kafka_message_s;

namespace dovetail::kafka {

// "orders/3"
std::string partition_name(std::string_view topic, std::int32_t partition);

// One thread.
class Decoder {
 public:
  explicit Decoder(const Options& options);

  // Adds the event to `out`. Its position is its offset plus one, its topic has no prefix.
  void read(const rd_kafka_message_s& message, Batch& out);

 private:
  MessageReader reader_;
  const std::size_t prefix_;            // bytes of the topic that events do not show
  std::vector<MessageHeader> headers_;  // reused
  std::string place_;                   // reused
};

}  // namespace dovetail::kafka

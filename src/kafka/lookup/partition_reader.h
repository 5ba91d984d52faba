// Reads partitions by offset, outside any group. Nothing is committed.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/clock.h"
#include "dovetail/result.h"
#include "kafka/client.h"
#include "kafka/options.h"

namespace dovetail::kafka {

// Waits for a broker. `errors` collects what librdkafka reports, and must outlive the client.
Result<Handle<rd_kafka_s>> open_reader(const Options& options, ConnectErrors& errors);

struct OffsetRange {
  std::int32_t partition = 0;
  std::int64_t next = 0;
  std::int64_t end = 0;  // behind the last one
};

// What the partition has now. `topic`: with its prefix.
Result<OffsetRange> stored_offsets(rd_kafka_s* client, const std::string& topic,
                                   std::int32_t partition, Duration timeout);
// Messages come from `next` on, of every range that is not empty, also behind its end.
Status assign(rd_kafka_s* client, const std::string& topic, std::span<const OffsetRange> ranges);

// Changes nothing about what is read: the other brokers, or the same one again, may answer.
bool is_passing(const rd_kafka_message_s& message);

}  // namespace dovetail::kafka

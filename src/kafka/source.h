// Reads events from topics of Kafka, as a member of a consumer group.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/message/message.h"
#include "core/relay/source.h"
#include "kafka/client.h"
#include "kafka/options.h"

namespace dovetail::kafka {

// One thread at a time. Offsets are committed in flush(), and when partitions are taken away, never
// by librdkafka itself. The position of an event is its offset and one: a key stays in its
// partition.
//
// A partition that moves to another member of the group is forgotten only as far as it is settled:
// what was read of it and is still on its way is not read again when it comes back, and what is
// settled meanwhile is not committed.
class KafkaSource final : public Source {
 public:
  KafkaSource(Options options, Clock& clock);
  KafkaSource(const KafkaSource&) = delete;
  KafkaSource& operator=(const KafkaSource&) = delete;
  // Leaves the group, so that others take over at once.
  ~KafkaSource() override;

  // Waits until a broker has answered; joining the group goes on in read(). rejected: the options
  // are wrong.
  Status open() override;
  // corrupt: the topic has deleted events that were not read.
  Status read(Batch& out, const Limits& limits, std::stop_token stop) override;
  Status settle(const Batch& batch, std::span<const Settled> fates) override;
  Status flush() override;

 private:
  struct Partition {
    std::string topic;
    std::int32_t number = 0;
    bool assigned = false;
    // Offsets; -1: not known.
    std::int64_t next = -1;       // to be read next
    std::int64_t settled = -1;    // all before it are
    std::int64_t committed = -1;  // all before it will not come again
  };
  // What one read gave out of a partition.
  struct Piece {
    Partition* partition;
    std::int64_t end;  // behind the last of it
  };
  struct Reading {
    std::size_t events = 0;
    std::vector<Piece> pieces{};
  };
  struct Ends {
    std::int64_t low = 0;
    std::int64_t high = 0;
  };
  struct Callbacks;  // that librdkafka calls

  Status subscribe();
  void close();
  Partition& partition_of(const char* topic, std::int32_t number);
  void assign(rd_kafka_topic_partition_list_s* list);
  Status choose_offsets(rd_kafka_topic_partition_list_s* list);
  Result<Ends> ends_of(const Partition& partition);
  Status begin_at_end(Partition& partition, std::int64_t& offset);
  Status skip_deleted(Partition& partition, std::int64_t& offset);
  void revoke(rd_kafka_topic_partition_list_s* list);
  Status commit(const std::vector<Partition*>& partitions);
  Handle<rd_kafka_message_s> next_message(TimePoint end, std::stop_token stop);
  Status take(const rd_kafka_message_s& message, Batch& out, Reading& reading);
  Status take_error(const rd_kafka_message_s& message);
  Status offset_lost(const rd_kafka_message_s& message);
  Status check_connection();
  std::size_t bytes_of(const rd_kafka_message_s& message) const;

  Options options_;
  Clock& clock_;
  MessageReader reader_;
  Handle<rd_kafka_s> consumer_;
  std::map<std::pair<std::string, std::int32_t>, Partition> partitions_;
  std::deque<Reading> readings_;        // given out and not settled
  Handle<rd_kafka_message_s> held_;     // had no room in the last batch
  std::vector<MessageHeader> headers_;  // scratch
  std::string place_;                   // scratch
  std::optional<Error> fault_;          // of a callback
  ConnectErrors connect_errors_;
  TimePoint down_since_{};  // no broker could be reached since; none: one can
  bool closing_ = false;
  bool commit_due_ = false;  // it came while the group was being shared out anew
};

}  // namespace dovetail::kafka

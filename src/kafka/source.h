// Reads events from Kafka topics, as a member of a consumer group.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/relay/source.h"
#include "kafka/client.h"
#include "kafka/decoder.h"
#include "kafka/options.h"

namespace dovetail::kafka {

// One thread at a time. Offsets are committed in flush() and when partitions are taken away,
// never by librdkafka itself. An event's position is its offset plus one: a key stays in its
// partition.
//
// When a partition moves to another member, its settled events are forgotten. Events still in
// flight are not read again if the partition comes back, and events settled in between are not
// committed.
class KafkaSource final : public Source {
 public:
  KafkaSource(Options options, Clock& clock);
  KafkaSource(const KafkaSource&) = delete;
  KafkaSource& operator=(const KafkaSource&) = delete;
  // Leaves the group, so that other members take over at once.
  ~KafkaSource() override;

  // Waits until a broker has answered; joining the group continues in read(). rejected: the options
  // are wrong.
  Status open() override;
  // corrupt: the topic has deleted unread events.
  Status read(Batch& out, const Limits& limits, std::stop_token stop) override;
  Status settle(const Batch& batch, std::span<const Settled> fates) override;
  Status flush() override;

 private:
  struct Partition {
    std::string topic;
    std::int32_t number = 0;
    bool assigned = false;
    // Offsets; -1: unknown.
    std::int64_t next = -1;       // to be read next
    std::int64_t settled = -1;    // all before it are settled
    std::int64_t committed = -1;  // all before it will not come again
  };
  // What one read returned of a partition.
  struct Piece {
    Partition* partition;
    std::int64_t end;  // after its last message
  };
  struct Reading {
    std::size_t events = 0;
    std::vector<Piece> pieces{};
  };
  struct Ends {
    std::int64_t low = 0;
    std::int64_t high = 0;
  };
  struct Callbacks;  // called by librdkafka

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
  Decoder decoder_;
  Handle<rd_kafka_s> consumer_;
  std::map<std::pair<std::string, std::int32_t>, Partition> partitions_;
  std::deque<Reading> readings_;     // read and not settled
  Handle<rd_kafka_message_s> held_;  // did not fit into the last batch
  std::optional<Error> fault_;       // from a callback
  ConnectErrors connect_errors_;
  TimePoint down_since_{};  // since when no broker can be reached; empty: one can
  bool closing_ = false;
  bool commit_due_ = false;  // a commit came while the group was rebalancing
};

}  // namespace dovetail::kafka

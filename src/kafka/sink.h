// Publishes events to topics of Kafka.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/event/batch.h"
#include "core/message/message.h"
#include "core/relay/sink.h"
#include "core/sinks/confirms.h"
#include "kafka/client.h"
#include "kafka/options.h"

namespace dovetail::kafka {

// One thread at a time. An idempotent producer with acks=all: confirmed means that all replicas in
// sync have it. librdkafka sends in threads of its own, until the sink is opened again or
// destroyed; that waits for these threads, for which it takes some milliseconds. It would therefore
// read events that are gone with their relay: payloads are copied when they are submitted.
//
// A broker refuses a whole batch of records for the sake of one. An event is taken to be at fault
// only when it was alone in its batch; until then it comes back as `again`, and the producer is
// built anew with smaller batches, for a while.
//
// librdkafka remembers for minutes that a topic is not there. So the sink asks by itself whether a
// topic exists, before its first event and, where it did not, before the next ones; such events
// come back as `busy`.
class KafkaSink final : public Sink {
 public:
  KafkaSink(Options options, Clock& clock);
  KafkaSink(const KafkaSink&) = delete;
  KafkaSink& operator=(const KafkaSink&) = delete;
  ~KafkaSink() override;

  // Waits until a broker has answered. rejected: the options are wrong.
  Status open() override;
  // Waits for answers about topics and while librdkafka's queue is full, 2 s at most.
  Status submit(Events events) override;
  Result<bool> collect(std::span<Outcome> outcomes, Duration timeout) override;
  bool keeps_order_on_failure() const override { return false; }

 private:
  struct Topic {
    Handle<rd_kafka_topic_s> handle{};
    bool is_there = false;  // as far as we know
    TimePoint ask_at{};     // when it is not: not before
    std::string why{};      // events for it are refused; empty: nobody has said so
  };

  Status open_producer();
  void disconnect();
  Status send(const Event& event, std::uint64_t tag);
  Status produce(Topic& topic, std::int32_t partition, std::uint64_t tag);
  Result<Topic*> find_topic(std::string_view name);
  void ask_for(Topic& topic);
  void refuse(std::uint64_t tag, Fate fate, std::string reason);
  // Takes what has come, and waits for the first of it. False: nothing came.
  bool take_events(int timeout_ms);
  void take_report(const rd_kafka_message_s& report);
  void take_refusal(const rd_kafka_message_s& report, const char* topic);
  void take_error(rd_kafka_op_s* event);
  void give_up(Errc code, std::string text);
  Status check_connection();
  std::size_t topic_bytes_max(const std::string& topic);

  Options options_;
  Clock& clock_;
  std::optional<MessageWriter> writer_;
  Handle<rd_kafka_s> producer_;
  Handle<rd_kafka_queue_s> queue_;
  std::map<std::string, Topic, std::less<>> topics_;
  TimePoint patience_until_{};  // of this submit()
  ConfirmTracker tracker_;
  std::size_t uncollected_ = 0;  // batches
  Arena arena_;                  // of one message
  Message message_;              // scratch
  std::string topic_;
  ConnectErrors connect_errors_;
  std::optional<Error> fault_;          // why this producer is of no use any more
  TimePoint down_since_{};              // no broker could be reached since; none: one can
  std::size_t batch_bytes_ = 0;         // of the next producer
  std::size_t opened_batch_bytes_ = 0;  // of this one
  TimePoint batch_bytes_until_{};       // of batches that were made smaller
  std::map<std::string, std::size_t> topic_bytes_max_;
};

}  // namespace dovetail::kafka

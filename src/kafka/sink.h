// Publishes events to Kafka topics.
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
#include "core/sinks/key_order.h"
#include "kafka/client.h"
#include "kafka/options.h"

namespace dovetail::kafka {

// One thread at a time. Uses an idempotent producer with acks=all: confirmed means that all in-sync
// replicas have the event. librdkafka sends on its own threads until the sink is opened again or
// destroyed; both wait some milliseconds for these threads. Payloads are copied in submit(),
// because these threads may outlive the relay's events.
//
// The order of a key: a broker refuses a batch that does not follow the last one of its producer
// and partition. But it accepts any first batch of a producer that it does not know. So the first
// event of a key goes alone, and one request to a broker is out at a time. A batch that fails for
// good ends the producer (enable.gapless.guarantee); a new one gets all events that are not
// confirmed, in order.
//
// If one record is bad, a broker refuses its whole batch. So the sink blames an event only if it
// was alone in its batch. Until then a new producer sends smaller batches for a while.
//
// librdkafka remembers for minutes that a topic is missing. So the sink itself asks whether a topic
// exists, before its first event and, if it is missing, again before later ones. Events for a
// missing topic come back as `busy`. If a topic makes a producer fail, its events come back as
// `busy` for some time, too.
class KafkaSink final : public Sink {
 public:
  KafkaSink(Options options, Clock& clock);
  KafkaSink(const KafkaSink&) = delete;
  KafkaSink& operator=(const KafkaSink&) = delete;
  ~KafkaSink() override;

  // Waits until a broker has answered. rejected: the options are wrong.
  Status open() override;
  // Waits at most 2 s: for answers about topics, and while librdkafka's queue is full.
  Status submit(Events events) override;
  Result<bool> collect(std::span<Outcome> outcomes, Duration timeout) override;
  bool keeps_order_on_failure() const override { return true; }

 private:
  struct Topic {
    Handle<rd_kafka_topic_s> handle{};
    bool is_there = false;  // as far as known
    TimePoint ask_at{};     // if it is missing: do not ask earlier
    std::string why{};      // why its events are refused; empty: they are not
  };
  // A topic that made a producer fail: its events wait.
  struct Trouble {
    std::string why{};
    Duration pause{};
    TimePoint until{};
  };
  struct Blame {
    std::string why{};
    TimePoint until{};
  };

  Status open_producer();
  void disconnect();
  Status send(std::uint64_t tag);
  Status send_due();
  // Fills message_, name_ and partition_. The text: why the event can never be sent.
  std::string compose(const Event& event);
  std::uint64_t channel_of(std::uint64_t tag) const;
  std::string blame_of(const Event& event) const;
  Status produce(Topic& topic, std::uint64_t tag);
  Result<Topic*> find_topic(std::string_view name);
  void ask_for(Topic& topic);
  void refuse(std::uint64_t tag, Fate fate, std::string reason);
  // Takes librdkafka's events; waits for the first one only. False: none came.
  bool take_events(int timeout_ms);
  void take_report(const rd_kafka_message_s& report);
  void note_trouble(const std::string& topic, std::string why);
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
  KeyOrder order_{KeyOrder::First::alone};
  TimePoint forget_at_{};
  std::size_t uncollected_ = 0;  // batches
  Arena arena_;                  // for one message
  Message message_;              // reused
  std::string name_;             // of its topic
  std::int32_t partition_ = 0;   // of it; RD_KAFKA_PARTITION_UA: its key decides
  ConnectErrors connect_errors_;
  std::optional<Error> fault_;   // why this producer cannot be used any more
  TimePoint refused_at_{};       // a batch ended the producer; its reports come. Empty: none did
  TimePoint down_since_{};       // since when no broker can be reached; empty: one can
  std::size_t batch_bytes_ = 0;  // of the next producer
  std::size_t opened_batch_bytes_ = 0;  // of this one
  TimePoint batch_bytes_until_{};       // until then batches stay smaller
  std::map<std::string, std::size_t> topic_bytes_max_;
  // Kept over open().
  std::map<std::string, Trouble, std::less<>> troubles_;  // by topic
  std::map<EventId, Blame> blamed_;                       // refused alone, and not reported yet
};

}  // namespace dovetail::kafka

// Publishes events to RabbitMQ, with publisher confirms.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/event/batch.h"
#include "core/message/event_template.h"
#include "core/message/message.h"
#include "core/relay/sink.h"
#include "core/sinks/confirms.h"
#include "rabbitmq/confirmations.h"
#include "rabbitmq/connection.h"
#include "rabbitmq/options.h"
#include "rabbitmq/protocol/frames.h"

namespace dovetail::rabbitmq {

// A message that is sent alone, and the server's answer.
struct Alone {
  bool done = false;
  std::string why_returned{};
  Outcome outcome{};
};

// Persistent, mandatory messages on one channel in confirm mode. submit() waits in two cases only:
// once per exchange, to check it before its first message; and for messages for which the server
// may close the channel: those go alone, on their own channel.
//
//   acked confirmed
//   returned (no queue is bound), then acked busy
//   nacked (queue full, no leader) busy
//   no such exchange, no right to write to it busy
//   larger than allowed, or AMQP cannot carry it rejected
//   server blocks publishers (memory, disk) waits; nothing counts
//   channel closed again; a new channel on the same connection
//   connection lost in_doubt or unavailable
//
// The server closes a channel because of one message, but does not say which. So the messages in
// flight then go alone when they come again, until the server has answered each.
class RabbitmqSink final : public Sink {
 public:
  // rejected: a template is wrong.
  static Result<std::unique_ptr<RabbitmqSink>> make(Options options, Clock& clock);
  ~RabbitmqSink() override;

  Status open() override;
  Status submit(Events events) override;
  Result<bool> collect(std::span<Outcome> outcomes, Duration timeout) override;
  bool keeps_order_on_failure() const override { return false; }

 private:
  struct Destination {
    std::string_view exchange;
    std::string_view routing_key;
    std::string name() const;  // exchange and routing key
  };

  RabbitmqSink(Options options, Clock& clock, MessageWriter writer,
               std::optional<EventTemplate> exchange, EventTemplate routing_key);
  void leave();
  static Status open_publishing(Connection& connection);
  Status submit_one(const Event& event, std::uint64_t tag);
  Status publish(const Event& event, const Destination& to, std::uint64_t tag);
  Status publish_alone(const Event& event, const Destination& to, std::uint64_t tag);
  Result<Outcome> try_alone(const Event& event, const Destination& to);
  Publish message_for(const Event& event, const Destination& to) const;
  std::string why_too_large() const;

  // Why nothing can be published there now; empty: it is possible.
  Result<std::string> why_missing(const Destination& to);
  Result<Answer> look_for(const Destination& to);
  bool is_known(const Destination& to);

  Status on_frame(const amqp_frame_t_& frame);
  Status on_method(const amqp_frame_t_& frame);
  Status on_confirm(std::uint16_t channel, std::uint64_t number, bool multiple, bool ack);
  Status on_close(std::uint16_t channel, int code, std::string_view text);
  void on_return(const amqp_frame_t_& frame);
  Outcome refusal(int code, std::string_view text);

  bool is_held() const;
  void cut();
  void feed();
  Status drive(Duration timeout);
  Error blocked_error() const;

  Options options_;
  Clock& clock_;
  MessageWriter writer_;
  std::optional<EventTemplate> exchange_;  // empty: the server's default exchange
  EventTemplate routing_key_;
  std::string key_header_;

  std::unique_ptr<Connection> connection_;
  ConfirmTracker tracker_;
  Confirmations confirmations_{tracker_};
  std::string why_returned_;  // of the message whose properties come next
  PublishEncoder encoder_;
  Arena arena_;
  Message message_;

  std::string chunk_;               // whole messages, being filled
  std::deque<std::string> chunks_;  // full, not given to the connection yet
  std::vector<std::string> spare_chunks_;

  std::unordered_set<std::string> known_;  // destinations found on this connection
  std::string last_known_;
  bool control_open_ = false;
  bool alone_open_ = false;
  bool publish_open_ = false;
  std::optional<Alone> alone_;
  std::set<EventId> careful_;  // go alone: one of them may have closed the channel
  // Destinations that close a channel: their messages go alone until one is accepted.
  std::unordered_set<std::string> suspects_;
  std::unordered_map<std::string, Outcome> refused_now_;  // by destination, within one submit()
  TimePoint careful_until_{};
  std::size_t server_bytes_max_ = 0;  // as the server said; 0: unknown

  // After a blocked connection, one message goes first: the server reports that it is still blocked
  // to publishers only.
  bool probing_ = false;
  bool probe_fed_ = false;
};

}  // namespace dovetail::rabbitmq

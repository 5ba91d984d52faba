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

// A message that goes alone, and what the server says about it.
struct Alone {
  bool done = false;
  std::string why_returned{};
  Outcome outcome{};
};

// Persistent, mandatory messages on one channel in confirm mode. Nothing waits in submit(), except
// once for each exchange, which is looked for before the first message goes to it, and for messages
// that the server may close the channel for: those go alone, on a channel of their own.
//
//   acked                                          confirmed
//   returned (no queue is bound), then acked       busy
//   nacked (queue full, no leader)                 busy
//   no such exchange, no right to write to it      busy
//   larger than allowed, or not to be expressed    rejected
//   server blocks publishers (memory, disk)        waits; nothing is counted
//   channel closed                                 again; a new channel on the same connection
//   connection lost                                in_doubt or unavailable
//
// The server closes a channel for the sake of one message and does not say which. So what was in
// flight then goes alone when it comes again, until the server has spoken about each.
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
    std::string name() const;  // of both
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

  // Why nothing can be published there now; empty: it can.
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
  std::optional<EventTemplate> exchange_;  // none: that of the server, without a name
  EventTemplate routing_key_;
  std::string key_header_;

  std::unique_ptr<Connection> connection_;
  ConfirmTracker tracker_;
  Confirmations confirmations_{tracker_};
  std::string why_returned_;  // of the message whose properties come next
  PublishEncoder encoder_;
  Arena arena_;
  Message message_;

  std::string chunk_;               // of whole messages, being filled
  std::deque<std::string> chunks_;  // full, and not given to the connection
  std::vector<std::string> spare_chunks_;

  std::unordered_set<std::string> known_;  // destinations that were found on this connection
  std::string last_known_;
  bool control_open_ = false;
  bool alone_open_ = false;
  bool publish_open_ = false;
  std::optional<Alone> alone_;
  std::set<EventId> careful_;  // that go alone: one of them may have closed the channel
  // Destinations that close a channel: their messages go alone until one of them is taken.
  std::unordered_set<std::string> suspects_;
  std::unordered_map<std::string, Outcome> refused_now_;  // by destination, within one submit()
  TimePoint careful_until_{};
  std::size_t server_bytes_max_ = 0;  // as the server said; 0: it has not

  // After a connection that was blocked, one message goes first: the server tells that it is still
  // short only to those who publish.
  bool probing_ = false;
  bool probe_fed_ = false;
};

}  // namespace dovetail::rabbitmq

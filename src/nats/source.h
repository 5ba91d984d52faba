// Reads events from a stream of JetStream, by a durable pull consumer.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/message/message.h"
#include "core/relay/source.h"
#include "nats/connection.h"
#include "nats/consumer.h"
#include "nats/jetstream.h"
#include "nats/options.h"

namespace dovetail::nats {

// Every message is acknowledged by itself, in settle(), and flush() waits for the server's word
// that it has taken the last of these; the server takes them in order, so that it has all.
//
// Along the stream, events come in its order, also after a crash. What was delivered to a session
// that is gone comes again; the server would give out newer messages meanwhile. So whenever
// something is delivered that did not reach us, which the consumer's count of deliveries shows, the
// newer is held back until the older is here. It is asked back at once and not awaited until its
// time is over. This holds for one process that reads with the consumer, not for several at once.
class NatsSource final : public Source {
 public:
  NatsSource(SourceOptions options, Clock& clock);
  // Gives back what is not settled, so that the next reader need not wait for it.
  ~NatsSource() override;
  NatsSource(const NatsSource&) = delete;
  NatsSource& operator=(const NatsSource&) = delete;

  Status open() override;
  Status read(Batch& out, const Limits& limits, std::stop_token stop) override;
  Status settle(const Batch& batch, std::span<const Settled> fates) override;
  Status flush() override;

 private:
  struct Held {  // has come, and was not read yet
    std::string subject;
    std::string reply;
    std::string bytes;  // headers and payload
    std::size_t header_size = 0;
    std::int64_t time_ns = 0;
  };
  struct Given {  // was read
    std::string reply;
    bool settled = false;  // and its acknowledgement is on its way
  };

  Status pump(Duration timeout);
  void on_frame(const Frame& frame);
  void on_message(const Frame& frame, const AckSubject& ack);
  void on_status(const Frame& frame);
  void pull(bool long_poll);
  Status ask_for_more();
  void give(Batch& out, const Limits& limits);
  void give_one(Batch& out, std::int64_t sequence, const Held& held);

  void hold();
  Status release_when_complete();
  Status ask_back();
  bool can_ask_back() const;
  std::size_t unsettled() const { return held_.size() + given_.size() - settled_.size(); }
  void ask_for_patience();
  void forget();

  SourceOptions options_;
  Clock& clock_;
  MessageReader reader_;
  Connection connection_;
  std::optional<JetStream> jetstream_;
  Connection::Handler handler_;
  Consumer consumer_;
  std::size_t opened_ = 0;

  std::map<std::int64_t, Held> held_;  // by number in the stream
  std::size_t held_bytes_ = 0;
  std::unordered_map<std::int64_t, Given> given_;
  std::vector<std::int64_t> settled_;  // since the last flush()
  std::string last_settled_reply_;
  std::uint64_t flushes_ = 0;
  std::uint64_t answered_ = 0;  // number of the last question of ours that was answered

  std::int64_t asked_ = 0;    // messages that the server may still send without being asked again
  bool catching_up_ = false;  // a pull that does not wait is under way
  bool caught_up_ = false;    // and it has ended, or nothing was asked since
  TimePoint answer_by_{};     // no word by then: the server is not well
  std::int64_t next_delivery_ = 0;  // the consumer's count
  bool holding_ = false;
  bool is_shared_ = false;  // somebody else reads with this consumer: no order can be kept
  bool has_news_ = false;   // something came since the consumer was asked how it stands
  TimePoint hold_until_{};
  TimePoint hold_checked_at_{};
  TimePoint asked_back_at_{};
  TimePoint patience_at_{};
  std::optional<Error> lost_;

  HeaderBlock block_;
  std::vector<MessageHeader> headers_;
};

}  // namespace dovetail::nats

// Reads events from a JetStream stream with a durable pull consumer.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
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

// Every message is acknowledged alone, in settle(). flush() waits for the server's answer to the
// last one; the server handles them in order, so it then has all.
//
// Events come in the order of the stream, also after a crash. Messages that went to a dead session
// come again, but the server would deliver newer ones in between. The consumer's delivery count
// shows such gaps. Then newer messages are held back until the older ones are here; those are
// requested at once, without waiting for their time to run out. This works if one process uses the
// consumer, not several.
class NatsSource final : public Source {
 public:
  NatsSource(Options options, Clock& clock);
  // Returns unsettled messages, so that the next reader need not wait.
  ~NatsSource() override;
  NatsSource(const NatsSource&) = delete;
  NatsSource& operator=(const NatsSource&) = delete;

  Status open() override;
  Status read(Batch& out, const Limits& limits, std::stop_token stop) override;
  Status settle(const Batch& batch, std::span<const Settled> fates) override;
  Status flush() override;

 private:
  struct Held {  // received, not read yet
    std::string subject;
    std::string reply;
    std::string bytes;  // headers and payload
    std::size_t header_size = 0;
    std::int64_t time_ns = 0;
  };
  struct Given {  // read
    std::string reply;
    bool settled = false;  // its acknowledgement is on its way
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

  Options options_;
  Clock& clock_;
  MessageReader reader_;
  Connection connection_;
  std::optional<JetStream> jetstream_;
  Connection::Handler handler_;
  Consumer consumer_;
  std::size_t opened_ = 0;

  std::map<std::int64_t, Held> held_;  // by stream number
  std::size_t held_bytes_ = 0;
  std::unordered_map<std::int64_t, Given> given_;
  std::vector<std::int64_t> settled_;  // since the last flush()
  std::string last_settled_reply_;
  std::uint64_t flushes_ = 0;
  std::uint64_t answered_ = 0;  // the last of our requests that was answered

  std::int64_t asked_ = 0;          // how many messages the server may still send for our requests
  bool catching_up_ = false;        // a pull without waiting is running
  bool caught_up_ = false;          // it has ended, or nothing was requested since
  TimePoint answer_by_{};           // without an answer by then the server is not well
  std::int64_t next_delivery_ = 0;  // by the consumer's count
  bool holding_ = false;
  bool is_shared_ = false;  // another reader uses this consumer: the order is lost
  bool has_news_ = false;   // something came since the consumer's state was read
  TimePoint hold_until_{};
  TimePoint hold_checked_at_{};
  TimePoint asked_back_at_{};
  TimePoint patience_at_{};
  std::optional<Error> lost_;

  HeaderBlock block_;
  std::vector<MessageHeader> headers_;
};

// No call of it takes longer than `call_max` beyond the wait that it is asked for, except open().
std::unique_ptr<Source> make_source(Options options, Duration call_max, Clock& clock);

}  // namespace dovetail::nats

// Takes messages from RabbitMQ queues and acknowledges them when they are settled.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/message/message.h"
#include "core/relay/own_positions.h"
#include "core/relay/source.h"
#include "rabbitmq/connection.h"
#include "rabbitmq/options.h"

namespace dovetail::rabbitmq {

// Acknowledges in settle(); flush() waits until the server has the acknowledgements. When the
// connection ends, the server requeues unsettled messages in their old order; open() waits for that
// if the old connection still answers. Holds at most `prefetch` messages of each queue, besides
// those already read.
//
// Positions are the time of open() plus a count, above all parked ones: see OwnPositions. The
// lasting name of a message is its message-id. A message without any id gets a defect.
class RabbitmqSource final : public Source, public OwnPositions {
 public:
  RabbitmqSource(Options options, Clock& clock);
  ~RabbitmqSource() override;

  void begin_after(std::int64_t position) override { base_ = std::max(base_, position); }
  Status open() override;
  Status read(Batch& out, const Limits& limits, std::stop_token stop) override;
  Status settle(const Batch& batch, std::span<const Settled> fates) override;
  Status flush() override;

 private:
  // A received message; its memory is reused.
  struct Delivery {
    std::uint64_t tag = 0;
    std::string routing_key{};
    std::string content_type{};
    std::string message_id{};
    std::optional<WallTime> time{};
    std::vector<std::pair<std::string, std::string>> headers{};
    std::size_t header_count = 0;  // used entries of `headers`
    std::string body{};
    std::uint64_t body_size = 0;
    bool is_cloudevent = false;
    bool is_unreadable = false;  // its headers were left out
    bool is_whole = false;

    std::size_t bytes() const;
    void add_header(std::string_view name, std::string_view value);
  };

  Status start(Connection& connection);
  Status consume(Connection& connection, std::size_t index);
  Result<Answer> set_prefetch(Connection& connection) const;
  Status on_frame(const amqp_frame_t_& frame);
  Status on_method(const amqp_frame_t_& frame);
  void on_properties(const amqp_frame_t_& frame);
  void give(Batch& out, const Limits& limits);
  void give_one(const Delivery& delivery, Batch& out);
  void drop_pending();
  bool has_whole() const { return !pending_.empty() && pending_.front().is_whole; }

  Options options_;
  Clock& clock_;
  MessageReader reader_;
  std::string key_header_;
  std::unique_ptr<Connection> connection_;
  std::deque<Delivery> pending_;  // the last one may be incomplete
  std::vector<Delivery> spare_;
  std::vector<MessageHeader> headers_;  // reused
  std::string text_;                    // reused
  std::int64_t base_ = 0;               // the position before the connection's first message
  std::uint64_t given_ = 0;             // the last message that read() returned
  std::uint64_t acknowledged_ = 0;
  bool is_flushed_ = true;
};

// No call of it takes longer than `call_max` beyond the wait that it is asked for, except open().
std::unique_ptr<Source> make_source(Options options, Duration call_max, Clock& clock);

}  // namespace dovetail::rabbitmq

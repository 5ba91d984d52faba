// Publishes to streams of Redis.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "core/event/batch.h"
#include "core/message/message.h"
#include "core/relay/sink.h"
#include "core/sinks/confirms.h"
#include "redis/connection.h"
#include "redis/options.h"

namespace dovetail::redis {

// A batch is one pipeline of XADD on one connection, and the server answers each, in order. An
// event is confirmed by the id that its entry was given: then it is as safe as appendfsync makes
// it, and, where replicas are waited for, in so many of them. Copies payloads once, into the
// pipeline. Nothing waits in submit(); what the server does not take yet stays in memory.
class RedisSink final : public Sink {
 public:
  RedisSink(Options options, Clock& clock);

  // Also asks whether the server takes writes now. unavailable: it does not, or it cannot be
  // reached. rejected: a template of the message or a file of TLS is wrong.
  Status open() override;
  Status submit(Events events) override;
  Result<bool> collect(std::span<Outcome> outcomes, Duration timeout) override;
  // Redis goes on behind an XADD that it refuses.
  bool keeps_order_on_failure() const override { return false; }
  bool blocks() const override { return false; }

 private:
  // What a reply is for, in the order of commands.
  struct Expected {
    std::uint64_t tag = 0;          // of the event; of the last one before it, for WAIT
    std::size_t largest_field = 0;  // 0: this is a WAIT
    std::string_view topic{};       // of the event, which lives until it is collected
  };

  Status check_writable();
  Status check_replicas();
  Status learn_limit();
  void forget();
  void pump();
  void write(const Event& event, std::uint64_t tag);
  std::string why_refused(const Message& message) const;
  void write_wait(std::uint64_t tag);
  Status take_replies();
  Status resolve(const Expected& expected, Value reply);
  Status resolve_error(const Expected& expected, std::string_view reply);

  Options options_;
  Clock& clock_;
  std::optional<MessageWriter> writer_;
  Connection connection_;
  ConfirmTracker tracker_;
  std::size_t batches_ = 0;  // submitted and not collected
  std::deque<Expected> expected_;
  std::string refusal_;        // the server takes nothing more; empty: it does
  std::optional<Error> lost_;  // the connection
  std::size_t field_bytes_max_ = 0;
  Arena arena_;
  Message message_;
};

}  // namespace dovetail::redis

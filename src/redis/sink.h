// Publishes events to Redis streams.
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

// A batch is one pipeline of XADD on one connection; the server answers each in order. An event is
// confirmed by the id of its entry. Then it is as safe as appendfsync makes it, and stored on as
// many replicas as the sink waits for. Payloads are copied once, into the pipeline. submit() does
// not wait; what the server does not take yet stays in memory.
class RedisSink final : public Sink {
 public:
  RedisSink(Options options, Clock& clock);

  // Also checks that the server takes writes now. unavailable: it does not, or it cannot be
  // reached. rejected: a message template or a TLS file is wrong.
  Status open() override;
  Status submit(Events events) override;
  Result<bool> collect(std::span<Outcome> outcomes, Duration timeout) override;
  // Redis continues after an XADD that it refuses.
  bool keeps_order_on_failure() const override { return false; }
  bool blocks() const override { return false; }

 private:
  // What each reply answers, in the order of commands.
  struct Expected {
    std::uint64_t tag = 0;          // of the event; for WAIT, of the last event before it
    std::size_t largest_field = 0;  // 0: a WAIT
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
  std::string refusal_;        // why the server takes nothing more; empty: it does
  std::optional<Error> lost_;  // why the connection is lost
  std::size_t field_bytes_max_ = 0;
  Arena arena_;
  Message message_;
};

}  // namespace dovetail::redis

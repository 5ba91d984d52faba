// Publishes events to Redis streams.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/event/batch.h"
#include "core/message/message.h"
#include "core/relay/sink.h"
#include "core/sinks/confirms.h"
#include "core/sinks/key_order.h"
#include "redis/connection.h"
#include "redis/options.h"

namespace dovetail::redis {

// Events go in windows: XADD for each, in a transaction and in one write. One window is out at a
// time; the next takes all that has piled up. An event is confirmed by the id of its entry. Then it
// is as safe as appendfsync makes it, and stored on as many replicas as the sink waits for.
// Payloads are copied once, into the window. submit() does not wait.
//
// The order of a key: the server takes a window whole or not at all, and what refuses one event of
// a stream refuses those behind it. A window holds events of a key for one stream only. The next
// MULTI goes out behind each EXEC: once it is answered, no XADD can run outside a transaction.
class RedisSink final : public Sink {
 public:
  RedisSink(Options options, Clock& clock);

  // Also checks that the server takes writes now. unavailable: it does not, or it cannot be
  // reached. rejected: a message template or a TLS file is wrong.
  Status open() override;
  Status submit(Events events) override;
  Result<bool> collect(std::span<Outcome> outcomes, Duration timeout) override;
  bool keeps_order_on_failure() const override { return true; }
  bool blocks() const override { return false; }

 private:
  // What each reply answers, in the order of commands.
  enum class Answer : std::uint8_t { multi, queued, exec, wait, discard };
  // An event in the window that is out.
  struct Sent {
    std::uint64_t tag = 0;
    std::size_t largest_field = 0;
    std::string_view topic{};  // of the event, which lives until it is collected
    std::string refusal{};     // of its XADD, before the window ran
  };

  Status check_writable();
  Status check_replicas();
  Status learn_limit();
  void forget();
  void pump();
  Status leave_transaction();
  void fill_window();
  void place(std::uint64_t tag);
  bool compose(const Event& event, std::string& why_not);
  void write(Sent sent);
  std::string why_refused(const Message& message) const;
  void write_wait();
  void come_back(std::uint64_t tag, Outcome outcome);
  void refuse_all(std::string_view reply);
  Status take_replies();
  Status take_answer(Answer expected, Value reply);
  Status take_window(Value reply);
  Status take_wait(Value reply);
  Status resend_window(std::string_view reply);
  Status resolve(const Sent& sent, Value reply);
  void resolve_error(const Sent& sent, std::string_view reply);

  Options options_;
  Clock& clock_;
  std::optional<MessageWriter> writer_;
  Connection connection_;
  ConfirmTracker tracker_;
  std::size_t batches_ = 0;  // submitted and not collected
  KeyOrder order_;
  std::uint64_t last_tag_ = 0;
  std::deque<std::uint64_t> queue_;  // submitted, not placed yet
  std::vector<Sent> window_;         // out
  std::vector<Sent> in_vain_;        // of a window that did not run because of other events
  std::size_t queued_ = 0;           // answered in the window
  std::size_t window_bytes_ = 0;
  bool in_transaction_ = false;  // MULTI is answered
  bool multi_is_out_ = false;
  std::deque<Answer> expected_;
  std::string refusal_;        // why the server takes nothing more; empty: it does
  std::optional<Error> lost_;  // why the connection is lost
  std::size_t field_bytes_max_ = 0;
  Arena arena_;
  Message message_;
};

}  // namespace dovetail::redis

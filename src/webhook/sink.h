// Posts events to an HTTP endpoint: one request per event, many at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/inbox/key_fence.h"
#include "core/relay/sink.h"
#include "core/sinks/submissions.h"
#include "webhook/options.h"
#include "webhook/posting.h"
#include "webhook/transfers.h"

namespace dovetail::http {

// rejected: for the same reasons as open(), without connecting.
Status check(const SinkOptions& options);

// Only 2xx confirms. One event of a key is in flight at a time. After a failed event, nothing of
// its key is sent until the failure is collected. If the endpoint is down, busy or refuses our
// credentials, the connection has failed: running requests finish, other events come back as `busy`
// or `again`, and no attempt counts. Copies no payload.
class HttpSink final : public Sink {
 public:
  HttpSink(SinkOptions options, Clock& clock);

  Status open() override;  // connects once, to see whether the endpoint answers
  Status submit(Events events) override;
  Result<bool> collect(std::span<Outcome> outcomes, Duration timeout) override;
  bool keeps_order_on_failure() const override { return true; }
  bool blocks() const override { return false; }

 private:
  struct InLine;
  using Item = Submissions<InLine>::Item;
  struct InLine {
    Item* next = nullptr;  // the next event of its key
  };
  struct Line {  // the events of a key behind the one in flight
    Item* head = nullptr;
    Item* tail = nullptr;
  };

  Status prepare();
  void place(Item& item);
  void start_ready();
  void take(Item& item, const Answer& answer);
  void take_busy(Item& item, const Answer& answer, const std::string& reason);
  void take_nothing(Item& item, const Answer& answer);
  void resolve(Item& item, Outcome outcome);
  void give_up(Error error, Duration pause);
  void hand_out(std::span<Outcome> outcomes);

  SinkOptions options_;
  Clock& clock_;
  std::optional<PostingWriter> writer_;
  std::optional<Transfers> transfers_;

  Submissions<InLine> submitted_;
  std::deque<Item*> ready_;
  std::unordered_map<std::uint64_t, Line> lines_;  // for each key with an event ready or in flight
  // Keys with an unconfirmed event that is not collected yet; then the fence has them.
  std::unordered_set<std::uint64_t> failed_keys_;
  KeyFence fence_;
  std::uint64_t last_submitted_ = 0;

  // "not now" answers and requests without an answer, since the last other answer.
  std::uint32_t unanswered_ = 0;
  std::optional<Error> trouble_;  // nothing more is sent on this connection
  std::string pause_reason_;
  TimePoint pause_until_{};  // as the endpoint asked; kept over open()
};

}  // namespace dovetail::http

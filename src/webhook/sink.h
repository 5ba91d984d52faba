// Posts events to an HTTP endpoint, one request for each, many at a time.
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
#include "webhook/options.h"
#include "webhook/posting.h"
#include "webhook/transfers.h"

namespace dovetail::http {

// rejected: what open() would reject too, without connecting.
Status check(const SinkOptions& options);

// Only 2xx confirms. Of each key one event at a time is on its way, and behind one that is not
// confirmed nothing of its key is sent until that was collected. An endpoint that is down, busy or
// refuses our credentials is an error of the connection: what is on its way is waited for, what is
// not comes back as `busy` or `again`, and no attempt is counted. Copies no payload.
class HttpSink final : public Sink {
 public:
  HttpSink(SinkOptions options, Clock& clock);

  Status open() override;  // connects once to see whether the endpoint is there
  Status submit(Events events) override;
  Result<bool> collect(std::span<Outcome> outcomes, Duration timeout) override;
  bool keeps_order_on_failure() const override { return true; }
  bool blocks() const override { return false; }

 private:
  struct Submission;
  struct Item {
    const Event* event = nullptr;
    Submission* submission = nullptr;
    Item* next = nullptr;  // of its key
    Outcome outcome{};
  };
  struct Submission {
    std::uint64_t number = 0;
    std::vector<Item> items{};
    std::size_t unresolved = 0;
    std::size_t told = 0;  // outcomes that say more than "not now"
  };
  struct Line {  // what waits behind the one of its key that is on its way
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
  bool nothing_is_told() const;
  void hand_out(std::span<Outcome> outcomes);

  SinkOptions options_;
  Clock& clock_;
  std::optional<PostingWriter> writer_;
  std::optional<Transfers> transfers_;

  std::deque<std::unique_ptr<Submission>> submitted_;
  std::vector<std::unique_ptr<Submission>> spare_;
  std::deque<Item*> ready_;
  std::unordered_map<std::uint64_t, Line> lines_;  // of every key that has one ready or on its way
  // Keys with an event that was not confirmed, until that is collected; then the fence knows them.
  std::unordered_set<std::uint64_t> failed_keys_;
  KeyFence fence_;
  std::uint64_t last_submitted_ = 0;

  // Answers that say "not now", and requests without one, since the last other answer.
  std::uint32_t unanswered_ = 0;
  std::optional<Error> trouble_;  // the connection is given up: nothing more is sent on it
  std::string pause_reason_;
  TimePoint pause_until_{};  // the endpoint's own wish; outlives open()
};

}  // namespace dovetail::http

// The server's answers about published messages: acks and nacks by number, for one or for all up to
// it, in any order; and returns, which come before the ack of the message and override it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "core/sinks/confirms.h"
#include "dovetail/event.h"

namespace dovetail::rabbitmq {

// For one channel in confirm mode; the server numbers messages from 1. For one thread.
class Confirmations {
 public:
  explicit Confirmations(ConfirmTracker& tracker) : tracker_(tracker) {}

  // The channel's next message is the tracker's event `tag`.
  void published(std::uint64_t tag, const EventId& id);

  // The server found no queue for the message with that id.
  void returned(std::string_view id, const std::string& why);

  // False: the server named a message that was never published.
  bool acked(std::uint64_t number, bool multiple);
  bool nacked(std::uint64_t number, bool multiple);

  // The channel is closed: unanswered messages get `outcome`. Returns their ids.
  std::vector<EventId> give_up(const Outcome& outcome);

  std::size_t outstanding() const { return outstanding_; }
  void clear();  // for a new channel: numbers start again

 private:
  struct Sent {
    std::uint64_t tag = 0;
    EventId id{};
    bool settled = false;
    std::string why_returned{};  // empty: not returned
  };
  bool settle(std::uint64_t number, bool multiple, const Outcome& outcome);
  void settle_one(Sent& sent, const Outcome& outcome);

  ConfirmTracker& tracker_;
  std::deque<Sent> sent_;
  std::uint64_t first_number_ = 1;  // of sent_.front()
  std::size_t outstanding_ = 0;
};

}  // namespace dovetail::rabbitmq

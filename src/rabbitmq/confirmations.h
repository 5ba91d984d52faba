// What the server says about published messages: acks and nacks by number, alone or for all up to
// one, in any order; and returns, which come before the ack of the same message and outweigh it.
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

// Of one channel in confirm mode; the server numbers its messages from 1. Not for several threads.
class Confirmations {
 public:
  explicit Confirmations(ConfirmTracker& tracker) : tracker_(tracker) {}

  // The next message of the channel is the event `tag` of the tracker.
  void published(std::uint64_t tag, const EventId& id);

  // The server could not deliver the message of that id to any queue.
  void returned(std::string_view id, const std::string& why);

  // False: the server talks about a message that was never published.
  bool acked(std::uint64_t number, bool multiple);
  bool nacked(std::uint64_t number, bool multiple);

  // The channel is gone: what the server said nothing about gets `outcome`. Returns their ids.
  std::vector<EventId> give_up(const Outcome& outcome);

  std::size_t outstanding() const { return outstanding_; }
  void clear();  // a new channel: numbers begin again

 private:
  struct Sent {
    std::uint64_t tag = 0;
    EventId id{};
    bool settled = false;
    std::string why_returned{};  // empty: it was not
  };
  bool settle(std::uint64_t number, bool multiple, const Outcome& outcome);
  void settle_one(Sent& sent, const Outcome& outcome);

  ConfirmTracker& tracker_;
  std::deque<Sent> sent_;
  std::uint64_t first_number_ = 1;  // of sent_.front()
  std::size_t outstanding_ = 0;
};

}  // namespace dovetail::rabbitmq

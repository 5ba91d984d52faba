// How to reach a NATS server, what is sent to it and what is read from it.
#pragma once

#include <cstddef>

#include "core/clock.h"
#include "core/message/message.h"
#include "dovetail/nats.h"

namespace dovetail::nats {

// The application's options, and what it need not know. A sink uses `stream`, `domain` and the two
// options of the key, too.
struct Options : ReadOptions {
  // Behaviour of the sink. Any other stream than `stream` refuses the event; empty: any stream. The
  // key is one more token after the topic, or in the header if the format has none; an empty name
  // means no header.
  MessageOptions message{};
  // False: core NATS, where "confirmed" only means that the server has read the event. Subscribers
  // that are not connected then miss it.
  bool jetstream = true;
  // After this time without an answer, the server is asked whether any stream takes the subject.
  Duration probe_after = std::chrono::seconds(5);

  // Performance of the source
  std::size_t ack_pending_max = 20'000;  // read and not settled, for all users of this consumer
  Duration long_poll = std::chrono::seconds(10);  // how long a request waits for messages
  std::size_t prefetch_bytes = 4 << 20;           // raised to the server's largest message
};

}  // namespace dovetail::nats

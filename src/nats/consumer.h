// A durable pull consumer of JetStream: found or made, checked, and asked how it stands.
#pragma once

#include <cstdint>
#include <string>

#include "core/clock.h"
#include "dovetail/result.h"
#include "nats/jetstream.h"
#include "nats/options.h"

namespace dovetail::nats {

// How far a consumer is, in numbers of the stream and in numbers of its own deliveries.
struct ConsumerState {
  std::int64_t acked_stream = 0;  // everything up to here is acknowledged
  std::int64_t delivered_stream = 0;
  std::int64_t delivered_consumer = 0;
  std::int64_t ack_pending = 0;  // delivered to anybody and not acknowledged
};

struct Consumer {
  std::string stream{};
  std::string name{};
  Duration ack_wait{0};  // its own, which counts
  ConsumerState state{};

  // Where acknowledgements of the message with that number go to, whoever it was delivered to.
  std::string ack_subject(std::int64_t stream_sequence) const;
};

// Finds the stream and the consumer, and makes what is missing: the stream only where it is to be
// declared. rejected: the options are wrong, or the consumer is one that would lose messages.
// unavailable: there is no such stream (yet).
Result<Consumer> find_consumer(JetStream& jetstream, const SourceOptions& options,
                               const ServerInfo& server);

// What else comes meanwhile goes to `others`.
Result<ConsumerState> ask_state(JetStream& jetstream, const Consumer& consumer,
                                const Connection::Handler& others);

}  // namespace dovetail::nats

// A durable pull consumer of JetStream: finds or creates it, checks it, and reads its state.
#pragma once

#include <cstdint>
#include <string>

#include "core/clock.h"
#include "dovetail/result.h"
#include "nats/jetstream.h"
#include "nats/options.h"

namespace dovetail::nats {

// How far a consumer is, in stream numbers and in delivery numbers.
struct ConsumerState {
  std::int64_t acked_stream = 0;  // all up to here are acknowledged
  std::int64_t delivered_stream = 0;
  std::int64_t delivered_consumer = 0;
  std::int64_t ack_pending = 0;  // delivered and not acknowledged
};

struct Consumer {
  std::string stream{};
  std::string name{};
  Duration ack_wait{0};  // the consumer's own setting
  ConsumerState state{};

  // The subject that acknowledges a message by its stream number.
  std::string ack_subject(std::int64_t stream_sequence) const;
};

// Finds the stream and the consumer, or creates them (the stream only with `declare`). rejected:
// the options are wrong, or the existing consumer would lose messages. unavailable: the stream does
// not exist (yet).
Result<Consumer> find_consumer(JetStream& jetstream, const Options& options,
                               const ServerInfo& server);

// Other frames that arrive meanwhile go to `others`.
Result<ConsumerState> ask_state(JetStream& jetstream, const Consumer& consumer,
                                const Connection::Handler& others);

}  // namespace dovetail::nats

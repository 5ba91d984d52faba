// RabbitMQ queues as the origin of a consumer's events.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dovetail/broker.h"
#include "dovetail/origin.h"
#include "dovetail/result.h"

namespace dovetail::rabbitmq {

// Without a user, the client's certificate is the log-in.
struct ReadOptions : net::Access {
  ReadOptions() { user = password = "guest"; }  // as the server knows it at first

  std::string host = "127.0.0.1";
  std::uint16_t port = 0;  // 0: 5672, with TLS 5671
  std::string virtual_host = "/";

  std::vector<std::string> queues{};
  // Creates missing queues: durable, with one consumer each. Needs the right to configure.
  bool declare = false;
  // Allows one consumer at a time. Without it, or x-single-active-consumer on the queue, messages
  // of a dead consumer may come after later ones. A quorum queue ignores it and needs
  // x-single-active-consumer; queues declared here have that.
  bool exclusive = true;
  ForeignNames foreign{};
  // Messages received and not settled, per queue. Bounds memory and what comes again after a
  // crash.
  std::uint16_t prefetch = 2000;
};

// Does not connect. rejected: the options are wrong.
Result<Origin> origin(const ReadOptions& options);

}  // namespace dovetail::rabbitmq

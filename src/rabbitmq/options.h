// How to reach RabbitMQ, how messages look there, and what is read from it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/message/message.h"
#include "host/stream.h"

namespace dovetail::rabbitmq {

// Without a user, the client's certificate is the log-in.
struct Options : net::Access {
  Options() { user = password = "guest"; }  // as the server knows it at first

  // Where
  net::Endpoint server{"127.0.0.1", 5672};
  std::string virtual_host = "/";
  std::string connection_name = "dovetail";  // as the server lists it
  // The management API, "http://HOST:PORT" or "https://HOST:PORT", for examine(); empty: not used.
  std::string management_url{};

  // The sink
  MessageOptions message{};
  // Templates. The exchange "" delivers to the queue that the routing key names.
  std::string exchange{};
  std::string routing_key = "{topic}";
  // The header for a message's key. Empty: CloudEvents use their subject, other formats the header
  // "key".
  std::string key_header{};
  // Creates what is missing: a durable topic exchange, or for the exchange "" a durable queue named
  // by the routing key; for the source, its queues. Needs the right to configure.
  bool declare = false;
  std::string queue_type = "quorum";  // of declared queues: quorum or classic
  // Larger payloads are refused unsent. The server has its own limit (max_message_size), which also
  // holds once the server has named it.
  std::size_t payload_bytes_max = 134'217'728;
  // A server short of memory or disk stops reading messages. The sink waits this long; then it
  // reports an error and is opened again.
  Duration blocked_wait_max = std::chrono::seconds(20);

  // The source
  std::vector<std::string> queues{};
  ForeignNames foreign{};
  // Allows one consumer at a time. Without it, or x-single-active-consumer on the queue, messages
  // of a dead consumer may come after later ones. A quorum queue ignores it and needs
  // x-single-active-consumer; queues declared here have that.
  bool exclusive = true;

  // Times
  Duration connect_timeout = std::chrono::seconds(10);
  Duration answer_timeout = std::chrono::seconds(30);
  // After twice this time without a sign of life, the connection counts as lost.
  Duration heartbeat = std::chrono::seconds(10);

  // Performance
  // Messages received and not settled, per queue. Bounds memory and what comes again after a
  // crash.
  std::uint16_t prefetch = 2000;
};

}  // namespace dovetail::rabbitmq

// How to reach RabbitMQ, how messages look there, and what is read from it.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "core/clock.h"
#include "core/message/message.h"
#include "dovetail/rabbitmq.h"

namespace dovetail::rabbitmq {

// The application's options, and what it need not know.
struct Options : ReadOptions {
  // Where
  std::string connection_name = "dovetail";  // as the server lists it
  // The management API, "http://HOST:PORT" or "https://HOST:PORT", for examine(); empty: not used.
  std::string management_url{};

  // The sink; `declare` creates its topic exchange, or for the exchange "" a queue named by the
  // routing key.
  MessageOptions message{};
  // Templates. The exchange "" delivers to the queue that the routing key names.
  std::string exchange{};
  std::string routing_key = "{topic}";
  // The header for a message's key. Empty: CloudEvents use their subject, other formats the header
  // "key".
  std::string key_header{};
  std::string queue_type = "quorum";  // of declared queues: quorum or classic
  // Larger payloads are refused unsent. The server has its own limit (max_message_size), which also
  // holds once the server has named it.
  std::size_t payload_bytes_max = 134'217'728;
  // A server short of memory or disk stops reading messages. The sink waits this long; then it
  // reports an error and is opened again.
  Duration blocked_wait_max = std::chrono::seconds(20);

  // Times
  Duration connect_timeout = std::chrono::seconds(10);
  Duration request_timeout = std::chrono::seconds(30);
  // After twice this time without a sign of life, the connection counts as lost.
  Duration heartbeat = std::chrono::seconds(10);

  net::Endpoint server() const {
    const std::uint16_t usual = tls ? 5671 : 5672;
    return {host, port != 0 ? port : usual};
  }
};

}  // namespace dovetail::rabbitmq

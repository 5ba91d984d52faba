// How RabbitMQ is reached, how events look there, and what is read there.
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

struct Options {
  // Where
  net::Endpoint server{"127.0.0.1", 5672};
  // With TLS the server's certificate and the name in it are always checked.
  bool tls = false;
  net::TlsOptions tls_files{};
  std::string virtual_host = "/";
  std::string user = "guest";  // empty, with a certificate of the client: that tells who we are
  std::string password = "guest";
  std::string connection_name = "dovetail";  // as the server lists it
  // The management API, "http://HOST:PORT" or "https://HOST:PORT", for examine(); empty: not asked.
  std::string management_url{};

  // The sink
  MessageOptions message{};
  // Templates. The exchange "" is that of the server whose routing keys are names of queues.
  std::string exchange{};
  std::string routing_key = "{topic}";
  // The header that carries a message's key. Empty: CloudEvents have it as their subject, and other
  // formats in the header "key".
  std::string key_header{};
  // Creates what is missing: a durable topic exchange, or where the exchange is "", a durable queue
  // named by the routing key; for the source its queues. Needs the right to configure.
  bool declare = false;
  std::string queue_type = "quorum";  // of what is declared: quorum or classic
  // Larger ones are refused before they are sent. The server has a limit of its own
  // (max_message_size); once it has named that, it holds, too.
  std::size_t payload_bytes_max = 134'217'728;
  // The server may stop taking messages while it lacks memory or disk. So long the sink waits in
  // silence, then it says so, and is opened again.
  Duration blocked_wait_max = std::chrono::seconds(20);

  // The source
  std::vector<std::string> queues{};
  ForeignNames foreign{};
  // Only one consumer at a time: without it, or x-single-active-consumer on the queue, messages of
  // a consumer that died may come behind later ones. A quorum queue takes no notice of it and needs
  // x-single-active-consumer, which those have that are declared here.
  bool exclusive = true;

  // Times
  Duration connect_timeout = std::chrono::seconds(10);
  Duration answer_timeout = std::chrono::seconds(30);
  // The server is gone after twice this time without a sign of life.
  Duration heartbeat = std::chrono::seconds(10);

  // Performance
  // Messages that were received and not settled, for each queue: bounds memory, and what comes
  // again after a crash.
  std::uint16_t prefetch = 2000;
};

}  // namespace dovetail::rabbitmq

// How to reach and use a Kafka cluster, as a sink and as a source.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/message/message.h"
#include "host/stream.h"

namespace dovetail::kafka {

// Without a user, there is no SASL.
struct Options : net::Access {
  // Behaviour
  std::string brokers;  // "host:port,host:port": some brokers of the cluster; they name the others
  std::string sasl_mechanism = "PLAIN";  // or SCRAM-SHA-256, SCRAM-SHA-512
  MessageOptions message{};
  ForeignNames foreign{};
  std::string topic_prefix{};  // stands before every topic; events do not show it
  Duration connect_timeout = std::chrono::seconds(10);

  // Of a source.
  std::vector<std::string> topics{};  // a name that begins with '^' is a regular expression
  std::string group{};
  bool from_end = false;      // if the group has no offset yet: read new messages only
  bool skip_deleted = false;  // true: if the topic deleted unread events, skip them instead of
                              // halting

  // For doctor.
  bool single_node = false;  // the cluster has no replicas on purpose

  // Performance
  // How long a batch waits for more messages. 0: it takes what has piled up while the last request
  // was out.
  Duration linger{0};
  // Payload, key and headers together; larger messages are refused unsent. By default a broker
  // accepts 1,048,588 bytes including framing.
  std::size_t message_bytes_max = 1'048'000;

  // Properties of librdkafka. rejected if one would break dovetail's guarantees.
  std::map<std::string, std::string, std::less<>> properties{};
};

}  // namespace dovetail::kafka

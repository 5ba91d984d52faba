// How a Kafka cluster is reached and used, as a sink and as a source.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/message/message.h"

namespace dovetail::kafka {

struct Options {
  // Behaviour
  std::string brokers;  // "host:port,host:port": any of the cluster, it tells of the others
  bool tls = false;     // the broker's certificate and its host name are always checked
  std::filesystem::path ca_file{};    // PEM; empty: what the system trusts
  std::filesystem::path cert_file{};  // PEM, of the client; with key_file
  std::filesystem::path key_file{};
  std::string user{};  // empty: no SASL
  std::string password{};
  std::string sasl_mechanism = "PLAIN";  // or SCRAM-SHA-256, SCRAM-SHA-512
  MessageOptions message{};
  ForeignNames foreign{};
  std::string topic_prefix{};  // before every topic; events do not show it
  Duration connect_timeout = std::chrono::seconds(10);

  // Of a source.
  std::vector<std::string> topics{};  // one that begins with '^' is a regular expression
  std::string group{};
  bool from_end = false;  // where a group has no offset yet: only what comes from now on
  bool skip_deleted =
      false;  // go on behind events that the topic deleted unread, instead of halting

  // Of the doctor.
  bool single_node = false;  // meant to be without replicas

  // Performance
  Duration linger = std::chrono::milliseconds(2);  // how long a batch may wait for more messages
  // Payload, key and headers together; more is refused before it is sent. A broker takes 1,048,588
  // bytes with what frames them, unless its topic says otherwise.
  std::size_t message_bytes_max = 1'048'000;

  // Properties of librdkafka, by its names. Those that dovetail's promises rest on are refused.
  std::map<std::string, std::string, std::less<>> properties{};
};

}  // namespace dovetail::kafka

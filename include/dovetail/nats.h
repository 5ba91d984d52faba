// A NATS JetStream stream as the origin of a consumer's events.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "dovetail/broker.h"
#include "dovetail/origin.h"
#include "dovetail/result.h"

namespace dovetail::nats {

// Whether TLS is spoken is never taken from the server's greeting, which an attacker in between
// could change.
struct ConnectionOptions : net::Access {
  std::vector<net::Endpoint> servers{{"127.0.0.1", 4222}};  // of one cluster; tried in turn
  std::string token{};                                      // instead of user and password
  std::string name = "dovetail";                            // shown in the server's monitoring
  // The subject of answers. Change it if the user may not subscribe to "_INBOX.>".
  std::string inbox_prefix = "_INBOX";
  std::chrono::microseconds connect_timeout = std::chrono::seconds(10);
  std::chrono::microseconds request_timeout = std::chrono::seconds(10);  // of JetStream
};

struct ReadOptions : ConnectionOptions {
  std::string stream{};                 // empty: the stream that takes the first of `subjects`
  std::vector<std::string> subjects{};  // the subjects to read; empty: all of the stream
  std::string group{};          // the name of the durable consumer; one process at a time uses it
  std::string domain{};         // of JetStream; empty: the server's default
  bool declare = false;         // creates a missing stream from `subjects`
  bool from_end = false;        // if there is no such consumer yet: read new messages only
  bool key_in_subject = false;  // the last token is the key, not a part of the topic
  std::string key_header = "Message-Key";  // of messages of other publishers
  ForeignNames foreign{};
  // A message that is neither settled nor extended in this time comes again. Must exceed the
  // longest handler. An existing durable consumer keeps its own value.
  std::chrono::microseconds redeliver_after = std::chrono::seconds(30);
  std::size_t prefetch = 2000;  // messages that are read ahead
};

// Does not connect. rejected: the options are wrong.
Result<Origin> origin(const ReadOptions& options);

}  // namespace dovetail::nats

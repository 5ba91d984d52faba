// How to reach a NATS server, what is sent to it and what is read from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/message/message.h"
#include "host/stream.h"

namespace dovetail::nats {

// Whether TLS is spoken is never taken from the server's greeting, which an attacker in between
// could change.
struct ConnectionOptions : net::Access {
  std::vector<net::Endpoint> servers{};  // of one cluster; tried in turn
  std::string token{};
  std::string name = "dovetail";  // shown in the server's monitoring
  // The subject of answers. Change it if the user may not subscribe to "_INBOX.>".
  std::string inbox_prefix = "_INBOX";
  Duration connect_timeout = std::chrono::seconds(10);
  Duration request_timeout = std::chrono::seconds(10);  // for JetStream, and for acks in flush()
};

struct SinkOptions {
  ConnectionOptions connection{};
  MessageOptions message{};
  // Behaviour
  // False: core NATS, where "confirmed" only means that the server has read the event. Subscribers
  // that are not connected then miss it.
  bool jetstream = true;
  std::string expected_stream{};  // any other stream refuses the event; empty: any stream
  std::string domain{};           // of JetStream; empty: the server's default
  bool key_in_subject = false;    // the key is one more token after the topic
  // The header for the key if the format has none; empty: no header.
  std::string key_header = "Message-Key";
  // After this time without an answer, the server is asked whether any stream takes the subject.
  Duration probe_after = std::chrono::seconds(5);
};

struct SourceOptions {
  ConnectionOptions connection{};
  ForeignNames foreign{};
  // Behaviour
  std::string stream{};                 // empty: the stream that takes the first of `subjects`
  std::vector<std::string> subjects{};  // the subjects to read; empty: all of the stream
  std::string durable = "dovetail";     // the consumer; one process at a time uses it
  std::string domain{};
  bool declare = false;         // creates a missing stream from `subjects`
  bool from_end = false;        // a new consumer starts with new messages
  bool key_in_subject = false;  // the last token is the key, not a part of the topic
  std::string key_header = "Message-Key";
  // A message that is neither settled nor extended in this time comes again. Must exceed the
  // longest handler. An existing consumer keeps its own value.
  Duration ack_wait = std::chrono::seconds(30);
  // Performance
  std::size_t ack_pending_max = 20'000;  // read and not settled, for all users of this consumer
  std::size_t prefetch_events = 2000;
  Duration long_poll = std::chrono::seconds(10);  // how long a request waits for messages
  std::size_t prefetch_bytes = 4 << 20;           // raised to the server's largest message
};

}  // namespace dovetail::nats

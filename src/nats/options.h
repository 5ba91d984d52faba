// How a NATS server is reached, and what is sent to it and read from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/message/message.h"
#include "host/stream.h"

namespace dovetail::nats {

struct ConnectionOptions {
  std::vector<net::Endpoint> servers{};  // of one cluster; tried one after the other
  bool use_tls =
      false;  // never guessed from what the server says: then nobody can talk us out of it
  net::TlsOptions tls{};
  std::string user{};
  std::string password{};
  std::string token{};
  std::string name = "dovetail";  // as the server's monitoring shows us
  // What answers come back to. Another one is needed where users may not subscribe to "_INBOX.>".
  std::string inbox_prefix = "_INBOX";
  Duration connect_timeout = std::chrono::seconds(10);
  Duration request_timeout = std::chrono::seconds(10);  // of JetStream's API, and of acks at flush
};

struct SinkOptions {
  ConnectionOptions connection{};
  MessageOptions message{};
  // Behaviour
  // False: core NATS, where "confirmed" means that the server has read it, and nothing more. Who
  // does not listen at that moment never gets it.
  bool jetstream = true;
  std::string expected_stream{};  // any other stream refuses; empty: any
  std::string domain{};           // of JetStream; empty: the server's own
  bool key_in_subject = false;    // the key as one more token behind the topic
  // Where the key is put when the format does not carry it; empty: nowhere.
  std::string key_header = "Message-Key";
  // No word about an event for so long: the server is asked whether any stream takes its subject.
  Duration probe_after = std::chrono::seconds(5);
};

struct SourceOptions {
  ConnectionOptions connection{};
  ForeignNames foreign{};
  // Behaviour
  std::string stream{};                 // empty: the one that takes the first of `subjects`
  std::vector<std::string> subjects{};  // that are read; empty: all of the stream
  std::string durable = "dovetail";     // the consumer; one process at a time reads with it
  std::string domain{};
  bool declare = false;         // makes the stream, of `subjects`, when it is missing
  bool from_end = false;        // a consumer that is made now begins with what comes from now on
  bool key_in_subject = false;  // the last token is the key, and not part of the topic
  std::string key_header = "Message-Key";
  // A message that is neither settled nor asked patience for by then comes again. Longer than the
  // longest handler. Of a consumer that is there already, its own counts.
  Duration ack_wait = std::chrono::seconds(30);
  // Performance
  std::size_t ack_pending_max = 20'000;  // read and not settled, by all who read with this consumer
  std::size_t prefetch_events = 2000;
  Duration long_poll = std::chrono::seconds(10);  // how long one request waits for messages
  std::size_t prefetch_bytes = 4 << 20;           // raised to the server's largest message
};

}  // namespace dovetail::nats

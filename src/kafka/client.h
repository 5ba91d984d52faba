// What the producer, the consumer and the administration of Kafka share: librdkafka's objects,
// its properties, its errors.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/handle.h"
#include "dovetail/result.h"
#include "kafka/options.h"

struct rd_kafka_s;
struct rd_kafka_conf_s;
struct rd_kafka_op_s;
struct rd_kafka_headers_s;
struct rd_kafka_message_s;
struct rd_kafka_queue_s;
struct rd_kafka_topic_s;
struct rd_kafka_topic_partition_list_s;

namespace dovetail::kafka {

void destroy(rd_kafka_s* client);
void destroy(rd_kafka_conf_s* configuration);
void destroy(rd_kafka_op_s* event);
void destroy(rd_kafka_headers_s* headers);
void destroy(rd_kafka_message_s* message);
void destroy(rd_kafka_queue_s* queue);
void destroy(rd_kafka_topic_s* topic);
void destroy(rd_kafka_topic_partition_list_s* list);
template <class T>
using Handle = dovetail::Handle<T, static_cast<void (*)(T*)>(destroy)>;

enum class Role : std::uint8_t { producer, consumer, admin };
using Properties = std::vector<std::pair<std::string, std::string>>;

// What librdkafka is told. rejected: a property of the options is one that promises rest on; the
// text says why.
Result<Properties> properties_of(const Options& options, Role role);

// rejected: librdkafka does not take a property; the text says which and why.
Result<Handle<rd_kafka_conf_s>> make_configuration(const Properties& properties);
// Takes the configuration.
Result<Handle<rd_kafka_s>> make_client(Role role, Handle<rd_kafka_conf_s> configuration);

// A name that a topic may have. The text says what is wrong with it; empty: nothing.
std::string_view topic_problem(std::string_view name);

// What is wrong with the connection as a whole, with what to check. One line, no secrets.
Error connection_error(const Options& options, int code, std::string_view text);

// The errors that librdkafka tells while it tries to reach a broker.
class ConnectErrors {
 public:
  void note(int code, std::string_view text);
  bool is_final() const;  // a wrong password or certificate: trying on is of no use
  bool all_down() const { return all_down_; }
  int code() const { return code_; }
  const std::string& text() const { return text_; }
  void clear() { *this = ConnectErrors(); }

 private:
  int code_ = 0;
  std::string text_;
  bool all_down_ = false;
};

// Waits until one broker has answered, `options.connect_timeout` at most. `serve` takes what
// librdkafka has to tell into `connect_errors`, without waiting.
template <class Serve>
Status wait_for_broker(rd_kafka_s* client, const Options& options, ConnectErrors& connect_errors,
                       Serve serve);

// One try of it: whether a broker answered within `timeout_ms`.
bool broker_answers(rd_kafka_s* client, int timeout_ms, ConnectErrors& connect_errors);

int to_milliseconds(Duration duration);  // rounded up

template <class Serve>
Status wait_for_broker(rd_kafka_s* client, const Options& options, ConnectErrors& connect_errors,
                       Serve serve) {
  // All addresses of a name are tried in turn, and the first may well be down.
  constexpr int kTryMs = 250;
  const int tries = 1 + to_milliseconds(options.connect_timeout) / kTryMs;
  for (int i = 0; i < tries; ++i) {
    if (broker_answers(client, kTryMs, connect_errors)) return {};
    serve();
    if (connect_errors.is_final() || (connect_errors.all_down() && i >= 4)) break;
  }
  return fail(
      connection_error(options, connect_errors.code(),
                       connect_errors.text().empty() ? "no answer" : connect_errors.text()));
}

}  // namespace dovetail::kafka

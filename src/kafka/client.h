// What producer, consumer and administration share: librdkafka's objects, its properties and
// errors.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/clock.h"
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

// How long no broker has to answer until the connection counts as lost.
constexpr Duration kDownMax = std::chrono::seconds(5);

enum class Role : std::uint8_t { producer, consumer, admin };
using Properties = std::vector<std::pair<std::string, std::string>>;

// The properties for librdkafka. rejected: an option would break dovetail's guarantees; the text
// says why.
Result<Properties> properties_of(const Options& options, Role role);

// rejected: librdkafka refuses a property; the text says which and why.
Result<Handle<rd_kafka_conf_s>> make_configuration(const Properties& properties);
// Takes ownership of the configuration.
Result<Handle<rd_kafka_s>> make_client(Role role, Handle<rd_kafka_conf_s> configuration);

// What is wrong with a topic name; empty: nothing.
std::string_view topic_problem(std::string_view name);

// The error of the whole connection, with what to check. One line, no secrets.
Error connection_error(const Options& options, int code, std::string_view text);

// The errors that librdkafka reports while it tries to reach a broker.
class ConnectErrors {
 public:
  void note(int code, std::string_view text);
  bool is_final() const;  // wrong password or certificate: retrying is useless
  bool all_down() const { return all_down_; }
  int code() const { return code_; }
  const std::string& text() const { return text_; }
  void clear() { *this = ConnectErrors(); }

 private:
  int code_ = 0;
  std::string text_;
  bool all_down_ = false;
};

// Waits until one broker has answered, at most `options.connect_timeout`. `serve` moves
// librdkafka's reports into `connect_errors` without waiting.
template <class Serve>
Status wait_for_broker(rd_kafka_s* client, const Options& options, ConnectErrors& connect_errors,
                       Serve serve);

// One try: whether a broker answers within `timeout_ms`.
bool broker_answers(rd_kafka_s* client, int timeout_ms, ConnectErrors& connect_errors);

int to_milliseconds(Duration duration);  // rounded up

template <class Serve>
Status wait_for_broker(rd_kafka_s* client, const Options& options, ConnectErrors& connect_errors,
                       Serve serve) {
  // All addresses of a name are tried in turn, and the first may be down.
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

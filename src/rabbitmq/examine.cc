#include "rabbitmq/examine.h"

#include <amqp.h>
#include <amqp_framing.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <string>
#include <string_view>

#include "rabbitmq/connection.h"
#include "rabbitmq/management.h"
#include "rabbitmq/protocol/frames.h"

namespace dovetail::rabbitmq {

namespace {

constexpr std::uint16_t kChannel = 1;
constexpr std::size_t kOfferedMax = 64 << 20;

// A setting of the queue: its argument, or else the policies in effect.
const Json& setting(const Json& queue, const std::string& name) {
  const Json& argument = queue["arguments"]["x-" + name];
  return argument.is_null() ? queue["effective_policy_definition"][name] : argument;
}

class Examination {
 public:
  Examination(const Options& options, Clock& clock, std::size_t payload_bytes_max)
      : options_(options), clock_(clock), payload_bytes_max_(payload_bytes_max) {}

  Result<std::vector<Finding>> run() {
    DOVETAIL_TRY(look_by_amqp());
    if (options_.management_url.empty()) {
      add(Severity::note, "rabbitmq-not-examined",
          "the settings of queues were not checked: AMQP does not report them",
          "set management_url to RabbitMQ's management API, and give the user the tag monitoring");
    } else {
      DOVETAIL_TRY(look_by_management());
    }
    return std::move(findings_);
  }

 private:
  void add(Severity severity, std::string code, std::string what, std::string what_to_do) {
    findings_.push_back({severity, std::move(code), std::move(what), std::move(what_to_do)});
  }

  bool has_one_exchange() const {
    return !options_.exchange.empty() && options_.exchange.find('{') == std::string::npos;
  }

  Status look_by_amqp() {
    Result<std::unique_ptr<Connection>> connection =
        Connection::open(options_, "doctor", clock_, [](const amqp_frame_t_&) { return Status{}; });
    if (!connection) return fail(connection.error());
    for (const std::string& queue : options_.queues) DOVETAIL_TRY(find_queue(**connection, queue));
    if (has_one_exchange()) DOVETAIL_TRY(find_exchange(**connection));
    if (payload_bytes_max_ > 0 && payload_bytes_max_ <= kOfferedMax)
      DOVETAIL_TRY(offer(**connection));
    (*connection)->close(options_.connect_timeout);
    return {};
  }

  Status find_queue(Connection& connection, const std::string& queue) {
    DOVETAIL_TRY(connection.open_channel(kChannel));
    amqp_queue_declare_t declare{};
    declare.queue = as_bytes(queue);
    declare.passive = 1;
    const Result<Answer> answer = connection.call(kChannel, AMQP_QUEUE_DECLARE_METHOD, &declare,
                                                  AMQP_QUEUE_DECLARE_OK_METHOD);
    if (!answer) return fail(answer.error());
    if (answer->refused == AMQP_NOT_FOUND)
      add(options_.declare ? Severity::note : Severity::error, "rabbitmq-queue-missing",
          "queue \"" + queue + "\" does not exist", "create it, or set declare = true");
    else if (answer->refused != 0 && answer->refused != AMQP_RESOURCE_LOCKED)
      add(Severity::error, "rabbitmq-queue-refused", "queue \"" + queue + "\": " + answer->text,
          "check the user's permissions");
    return answer->refused == 0 ? close_channel(connection) : Status{};
  }

  Status find_exchange(Connection& connection) {
    DOVETAIL_TRY(connection.open_channel(kChannel));
    amqp_exchange_declare_t declare{};
    declare.exchange = as_bytes(options_.exchange);
    declare.passive = 1;
    const Result<Answer> answer = connection.call(kChannel, AMQP_EXCHANGE_DECLARE_METHOD, &declare,
                                                  AMQP_EXCHANGE_DECLARE_OK_METHOD);
    if (!answer) return fail(answer.error());
    if (answer->refused != 0)
      add(options_.declare ? Severity::note : Severity::error, "rabbitmq-exchange-missing",
          "exchange \"" + options_.exchange + "\": " + answer->text,
          "create it, or set declare = true");
    return answer->refused == 0 ? close_channel(connection) : Status{};
  }

  // The server checks the size first. A message that is not mandatory and has no queue is dropped.
  Status offer(Connection& connection) {
    DOVETAIL_TRY(connection.open_channel(kChannel));
    const std::string payload(payload_bytes_max_, ' ');
    Message message;
    message.payload = payload;
    std::string frames;
    PublishEncoder encoder;
    Publish publish{"", "dovetail.doctor.nobody", &message};
    publish.is_mandatory = false;
    if (!encoder.append(frames, kChannel, publish, connection.frame_bytes_max()).empty()) return {};
    connection.send(frames);
    amqp_channel_close_t close{};
    close.reply_code = AMQP_REPLY_SUCCESS;
    const Result<Answer> answer =
        connection.call(kChannel, AMQP_CHANNEL_CLOSE_METHOD, &close, AMQP_CHANNEL_CLOSE_OK_METHOD);
    if (!answer) return fail(answer.error());
    if (answer->refused == AMQP_PRECONDITION_FAILED)
      add(Severity::warning, "rabbitmq-message-size",
          "an outbox accepts payloads of " + std::to_string(payload_bytes_max_) +
              " bytes, but the server refuses them: " + answer->text,
          "raise max_message_size of the server, or lower payload_max of the outbox");
    return {};
  }

  static Status close_channel(Connection& connection) {
    amqp_channel_close_t close{};
    close.reply_code = AMQP_REPLY_SUCCESS;
    const Result<Answer> closed =
        connection.call(kChannel, AMQP_CHANNEL_CLOSE_METHOD, &close, AMQP_CHANNEL_CLOSE_OK_METHOD);
    return closed ? Status{} : fail(closed.error());
  }

  Status look_by_management() {
    const std::string host = percent_encoded(options_.virtual_host);
    DOVETAIL_TRY(look_at_nodes());
    if (has_one_exchange()) DOVETAIL_TRY(look_at_exchange(host));
    const Result<Json> queues = look_up(options_, "queues/" + host);
    if (!queues) return fail(queues.error());
    // Without an exchange, any queue can be a destination.
    const bool all = options_.exchange.empty() && options_.queues.empty();
    for (const Json& queue : queues->items()) {
      const std::string& name = queue["name"].text();
      const bool read =
          std::find(options_.queues.begin(), options_.queues.end(), name) != options_.queues.end();
      if (all || read || bound_.contains(name)) look_at_queue(queue, read);
    }
    return {};
  }

  Status look_at_nodes() {
    const Result<Json> nodes = look_up(options_, "nodes");
    if (!nodes) return Status{};  // the user may see queues but not nodes
    for (const Json& node : nodes->items()) {
      if (node["mem_alarm"].is_true() || node["disk_free_alarm"].is_true())
        add(Severity::error, "rabbitmq-alarm",
            "node " + node["name"].text() + " is short of " +
                (node["mem_alarm"].is_true() ? "memory" : "disk") + " and accepts no messages",
            "free some, or adjust vm_memory_high_watermark or disk_free_limit");
    }
    return {};
  }

  Status look_at_exchange(const std::string& host) {
    const std::string path = "exchanges/" + host + "/" + percent_encoded(options_.exchange);
    const Result<Json> exchange = look_up(options_, path);
    if (!exchange) return fail(exchange.error());
    if (exchange->is_null()) return {};  // already reported
    const std::string what = "exchange \"" + options_.exchange + "\"";
    if (!(*exchange)["durable"].is_true())
      add(Severity::error, "rabbitmq-exchange-not-durable",
          what + " is not durable: a restart of the server deletes it",
          "declare it again with durable = true");
    if ((*exchange)["auto_delete"].is_true())
      add(Severity::error, "rabbitmq-exchange-auto-delete",
          what + " is auto-delete: it goes with its last binding",
          "declare it again without auto_delete");
    const Result<Json> bindings = look_up(options_, path + "/bindings/source");
    if (!bindings) return fail(bindings.error());
    for (const Json& binding : bindings->items()) {
      if (binding["destination_type"].text() == "queue")
        bound_.insert(binding["destination"].text());
    }
    if (bindings->items().empty())
      add(Severity::warning, "rabbitmq-no-binding",
          what + " has no binding: every message is returned as unroutable",
          "bind the queues of its consumers");
    return {};
  }

  void look_at_queue(const Json& queue, bool is_read) {
    const std::string what = "queue \"" + queue["name"].text() + "\"";
    const bool quorum = queue["type"].text() == "quorum";
    if (!queue["durable"].is_true())
      add(Severity::error, "rabbitmq-queue-not-durable",
          what + " is not durable: a restart of the server deletes it and its messages",
          "declare it again with durable = true");
    if (queue["auto_delete"].is_true())
      add(Severity::error, "rabbitmq-queue-auto-delete",
          what + " is auto-delete: it goes with its last consumer, and its messages too",
          "declare it again without auto_delete");
    if (!setting(queue, "expires").is_null())
      add(Severity::error, "rabbitmq-queue-expires",
          what + " is deleted when it is unused for " + setting(queue, "expires").text() + " ms",
          "remove the argument x-expires or the policy \"expires\"");
    look_at_limits(queue, what);
    look_at_dead_letters(queue, what, quorum);
    if (!quorum && queue["type"].text() == "classic")
      add(Severity::note, "rabbitmq-classic-queue",
          what +
              " lives on one node: it is unavailable while the node is down, and lost with its "
              "disk",
          "use a quorum queue if the cluster has three nodes or more");
    const bool is_exclusive = options_.exclusive && !quorum;  // which ignores it
    if (is_read && !is_exclusive && !queue["arguments"]["x-single-active-consumer"].is_true())
      add(Severity::warning, "rabbitmq-order",
          what + " serves several consumers at once: events of one key can lose their order",
          quorum ? "declare it again with x-single-active-consumer; a quorum queue ignores "
                   "exclusive = true"
                 : "declare it again with x-single-active-consumer, or set exclusive = true");
  }

  void look_at_limits(const Json& queue, const std::string& what) {
    const Json& length = setting(queue, "max-length");
    const Json& bytes = setting(queue, "max-length-bytes");
    const std::string& overflow = setting(queue, "overflow").text();
    if ((!length.is_null() || !bytes.is_null()) && overflow != "reject-publish" &&
        overflow != "reject-publish-dlx")
      add(Severity::error, "rabbitmq-drop-head",
          what + " drops its oldest messages, even confirmed ones, above " +
              (length.is_null() ? bytes.text() + " bytes" : length.text() + " messages") +
              " (overflow drop-head)",
          "set overflow to reject-publish: the relay then waits and retries");
    if (const Json& ttl = setting(queue, "message-ttl"); !ttl.is_null())
      add(Severity::error, "rabbitmq-message-ttl",
          what + " drops messages after " + ttl.text() + " ms, even unread ones",
          "remove the argument x-message-ttl or the policy \"message-ttl\"");
  }

  void look_at_dead_letters(const Json& queue, const std::string& what, bool quorum) {
    const bool has_target = !setting(queue, "dead-letter-exchange").is_null();
    const Json& limit = setting(queue, "delivery-limit");
    if (!limit.is_null() && !has_target)
      add(Severity::error, "rabbitmq-delivery-limit",
          what + " drops a message after " + limit.text() +
              " deliveries without acknowledgement; restarts of a consumer can cause that",
          "remove delivery-limit (RabbitMQ 4 or newer: set it to -1), or set a "
          "dead-letter-exchange");
    if (has_target && quorum && setting(queue, "dead-letter-strategy").text() != "at-least-once")
      add(Severity::warning, "rabbitmq-dead-letter-at-most-once",
          what + " may lose messages on their way to the dead-letter exchange (at-most-once)",
          "set dead-letter-strategy to at-least-once, with overflow reject-publish");
  }

  const Options& options_;
  Clock& clock_;
  std::size_t payload_bytes_max_;
  std::set<std::string, std::less<>> bound_;  // queues bound to the exchange
  std::vector<Finding> findings_;
};

}  // namespace

Result<std::vector<Kept>> retention(const Options& options) {
  std::vector<Kept> kept;
  for (const std::string& queue : options.queues) {
    Kept& one = kept.emplace_back(Kept{"queue " + queue, {}, false});
    if (options.management_url.empty()) continue;
    const Result<Json> found = look_up(
        options, "queues/" + percent_encoded(options.virtual_host) + "/" + percent_encoded(queue));
    if (!found) return fail(found.error());
    const std::string& ttl = setting(*found, "message-ttl").text();
    std::int64_t ms = 0;
    const auto end = std::from_chars(ttl.data(), ttl.data() + ttl.size(), ms).ptr;
    if (!ttl.empty() && end == ttl.data() + ttl.size()) one.age = std::chrono::milliseconds(ms);
  }
  return kept;
}

Result<std::vector<Finding>> examine(const Options& options, Clock& clock,
                                     std::size_t payload_bytes_max) {
  return Examination(options, clock, payload_bytes_max).run();
}

}  // namespace dovetail::rabbitmq

#include "rabbitmq/examine.h"

#include <amqp.h>
#include <amqp_framing.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <string>
#include <string_view>

#include "core/findings.h"
#include "rabbitmq/connection.h"
#include "rabbitmq/management.h"
#include "rabbitmq/protocol/frames.h"

namespace dovetail::rabbitmq {

namespace {

using F = const Facts&;

constexpr std::uint16_t kExamineChannel = 1;
constexpr std::size_t kOfferedMax = 64 << 20;

// A setting of the queue: its argument, or else the policies in effect.
Json setting(const Json& queue, const std::string& name) {
  const Json argument = queue.get("arguments").get("x-" + name);
  return argument.is_null() ? queue.get("effective_policy_definition").get(name) : argument;
}

// The arguments and policies that the checks need, as the server calls them. `what`: its name.
Facts queue_facts(const Json& queue) {
  Facts facts;
  facts.set("what", "queue \"" + queue.get("name").text() + "\"");
  facts.set("type", queue.get("type").text());
  facts.set("durable", queue.get("durable").is_true());
  facts.set("auto_delete", queue.get("auto_delete").is_true());
  facts.set("single_active", queue.get("arguments").get("x-single-active-consumer").is_true());
  for (const char* name : {"expires", "max-length", "max-length-bytes", "overflow", "message-ttl",
                           "dead-letter-exchange", "dead-letter-strategy", "delivery-limit"})
    if (const Json value = setting(queue, name); !value.is_null()) facts.set(name, value.text());
  return facts;
}

bool is_quorum(F f) { return f.is("type", "quorum"); }
bool drops_head(F f) {
  return !f.is("overflow", "reject-publish") && !f.is("overflow", "reject-publish-dlx");
}
bool loses_order(F f) {
  const bool is_exclusive = f.is("exclusive") && !is_quorum(f);  // which ignores it
  return f.is("is_read") && !is_exclusive && !f.is("single_active");
}
constexpr std::string_view kReject =
    "set overflow to reject-publish: the relay then waits and retries";
constexpr Check kQueue[] = {
    {Severity::error, "rabbitmq-queue-not-durable", [](F f) { return !f.is("durable"); },
     "{what} is not durable: a restart of the server deletes it and its messages",
     "declare it again with durable = true"},
    {Severity::error, "rabbitmq-queue-auto-delete", [](F f) { return f.is("auto_delete"); },
     "{what} is auto-delete: it goes with its last consumer, and its messages too",
     "declare it again without auto_delete"},
    {Severity::error, "rabbitmq-queue-expires", [](F f) { return f.has("expires"); },
     "{what} is deleted when it is unused for {expires} ms",
     "remove the argument x-expires or the policy \"expires\""},
    {Severity::error, "rabbitmq-drop-head",
     [](F f) { return drops_head(f) && f.has("max-length"); },
     "{what} drops its oldest messages, even confirmed ones, above {max-length} messages (overflow "
     "drop-head)",
     kReject},
    {Severity::error, "rabbitmq-drop-head",
     [](F f) { return drops_head(f) && f.has("max-length-bytes") && !f.has("max-length"); },
     "{what} drops its oldest messages, even confirmed ones, above {max-length-bytes} bytes "
     "(overflow drop-head)",
     kReject},
    {Severity::error, "rabbitmq-message-ttl", [](F f) { return f.has("message-ttl"); },
     "{what} drops messages after {message-ttl} ms, even unread ones",
     "remove the argument x-message-ttl or the policy \"message-ttl\""},
    {Severity::error, "rabbitmq-delivery-limit",
     [](F f) { return f.has("delivery-limit") && !f.has("dead-letter-exchange"); },
     "{what} drops a message after {delivery-limit} deliveries without acknowledgement; restarts "
     "of "
     "a consumer can cause that",
     "remove delivery-limit (RabbitMQ 4 or newer: set it to -1), or set a dead-letter-exchange"},
    {Severity::warning, "rabbitmq-dead-letter-at-most-once",
     [](F f) {
       return f.has("dead-letter-exchange") && is_quorum(f) &&
              !f.is("dead-letter-strategy", "at-least-once");
     },
     "{what} may lose messages on their way to the dead-letter exchange (at-most-once)",
     "set dead-letter-strategy to at-least-once, with overflow reject-publish"},
    {Severity::note, "rabbitmq-classic-queue", [](F f) { return f.is("type", "classic"); },
     "{what} lives on one node: it is unavailable while the node is down, and lost with its disk",
     "use a quorum queue if the cluster has three nodes or more"},
    {Severity::warning, "rabbitmq-order", [](F f) { return loses_order(f) && is_quorum(f); },
     "{what} serves several consumers at once: events of one key can lose their order",
     "declare it again with x-single-active-consumer; a quorum queue ignores exclusive = true"},
    {Severity::warning, "rabbitmq-order", [](F f) { return loses_order(f) && !is_quorum(f); },
     "{what} serves several consumers at once: events of one key can lose their order",
     "declare it again with x-single-active-consumer, or set exclusive = true"},
};

constexpr Check kExchange[] = {
    {Severity::error, "rabbitmq-exchange-not-durable", [](F f) { return !f.is("durable"); },
     "exchange \"{exchange}\" is not durable: a restart of the server deletes it",
     "declare it again with durable = true"},
    {Severity::error, "rabbitmq-exchange-auto-delete", [](F f) { return f.is("auto_delete"); },
     "exchange \"{exchange}\" is auto-delete: it goes with its last binding",
     "declare it again without auto_delete"},
    {Severity::warning, "rabbitmq-no-binding", [](F f) { return f.number("bindings") == 0; },
     "exchange \"{exchange}\" has no binding: every message is returned as unroutable",
     "bind the queues of its consumers"},
};

constexpr Check kNode[] = {
    {Severity::error, "rabbitmq-alarm", [](F f) { return f.is("mem_alarm"); },
     "node {node} is short of memory and accepts no messages",
     "free some, or adjust vm_memory_high_watermark or disk_free_limit"},
    {Severity::error, "rabbitmq-alarm",
     [](F f) { return f.is("disk_free_alarm") && !f.is("mem_alarm"); },
     "node {node} is short of disk and accepts no messages",
     "free some, or adjust vm_memory_high_watermark or disk_free_limit"},
};

constexpr std::string_view kCreate = "create it, or set declare = true";
Severity unless_declared(F f) { return f.is("declare") ? Severity::note : Severity::error; }
constexpr Check kQueueMissing{unless_declared, "rabbitmq-queue-missing", nullptr,
                              "queue \"{queue}\" does not exist", kCreate};
constexpr Check kQueueRefused{Severity::error, "rabbitmq-queue-refused", nullptr,
                              "queue \"{queue}\": {error}", "check the user's permissions"};
constexpr Check kExchangeMissing{unless_declared, "rabbitmq-exchange-missing", nullptr,
                                 "exchange \"{exchange}\": {error}", kCreate};
constexpr Check kNotExamined{
    Severity::note, "rabbitmq-not-examined", nullptr,
    "the settings of queues were not checked: AMQP does not report them",
    "set management_url to RabbitMQ's management API, and give the user the tag monitoring"};
constexpr Check kMessageSize{
    Severity::warning, "rabbitmq-message-size", nullptr,
    "an outbox accepts payloads of {payload_bytes_max} bytes, but the server refuses them: {error}",
    "raise max_message_size of the server, or lower payload_max of the outbox"};

class Examination {
 public:
  Examination(const Options& options, Clock& clock, std::size_t payload_bytes_max)
      : options_(options), clock_(clock), payload_bytes_max_(payload_bytes_max) {}

  Result<std::vector<Finding>> run() {
    DOVETAIL_TRY(look_by_amqp());
    if (options_.management_url.empty()) {
      findings_.add(kNotExamined, {});
    } else {
      DOVETAIL_TRY(look_by_management());
    }
    return findings_.take();
  }

 private:
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

  Facts declared(const std::string& error) const {
    return Facts()
        .set("declare", options_.declare)
        .set("exchange", options_.exchange)
        .set("error", error);
  }

  Status find_queue(Connection& connection, const std::string& queue) {
    DOVETAIL_TRY(connection.open_channel(kExamineChannel));
    amqp_queue_declare_t declare{};
    declare.queue = as_bytes(queue);
    declare.passive = 1;
    const Result<Answer> answer = connection.call(kExamineChannel, AMQP_QUEUE_DECLARE_METHOD,
                                                  &declare, AMQP_QUEUE_DECLARE_OK_METHOD);
    if (!answer) return fail(answer.error());
    if (answer->refused != 0 && answer->refused != AMQP_RESOURCE_LOCKED)
      findings_.add(answer->refused == AMQP_NOT_FOUND ? kQueueMissing : kQueueRefused,
                    declared(answer->text).set("queue", queue));
    return answer->refused == 0 ? close_channel(connection) : Status{};
  }

  Status find_exchange(Connection& connection) {
    DOVETAIL_TRY(connection.open_channel(kExamineChannel));
    amqp_exchange_declare_t declare{};
    declare.exchange = as_bytes(options_.exchange);
    declare.passive = 1;
    const Result<Answer> answer = connection.call(kExamineChannel, AMQP_EXCHANGE_DECLARE_METHOD,
                                                  &declare, AMQP_EXCHANGE_DECLARE_OK_METHOD);
    if (!answer) return fail(answer.error());
    if (answer->refused != 0) findings_.add(kExchangeMissing, declared(answer->text));
    return answer->refused == 0 ? close_channel(connection) : Status{};
  }

  // The server checks the size first. A message that is not mandatory and has no queue is dropped.
  Status offer(Connection& connection) {
    DOVETAIL_TRY(connection.open_channel(kExamineChannel));
    const std::string payload(payload_bytes_max_, ' ');
    Message message;
    message.payload = payload;
    std::string frames;
    PublishEncoder encoder;
    Publish publish{"", "dovetail.doctor.nobody", &message};
    publish.is_mandatory = false;
    if (!encoder.append(frames, kExamineChannel, publish, connection.frame_bytes_max()).empty())
      return {};
    connection.send(frames);
    amqp_channel_close_t close{};
    close.reply_code = AMQP_REPLY_SUCCESS;
    const Result<Answer> answer = connection.call(kExamineChannel, AMQP_CHANNEL_CLOSE_METHOD,
                                                  &close, AMQP_CHANNEL_CLOSE_OK_METHOD);
    if (!answer) return fail(answer.error());
    if (answer->refused == AMQP_PRECONDITION_FAILED)
      findings_.add(
          kMessageSize,
          Facts().set("payload_bytes_max", payload_bytes_max_).set("error", answer->text));
    return {};
  }

  static Status close_channel(Connection& connection) {
    amqp_channel_close_t close{};
    close.reply_code = AMQP_REPLY_SUCCESS;
    const Result<Answer> closed = connection.call(kExamineChannel, AMQP_CHANNEL_CLOSE_METHOD,
                                                  &close, AMQP_CHANNEL_CLOSE_OK_METHOD);
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
      const std::string name = queue.get("name").text();
      const bool read =
          std::find(options_.queues.begin(), options_.queues.end(), name) != options_.queues.end();
      if (all || read || bound_.contains(name))
        findings_.check(
            kQueue, queue_facts(queue).set("is_read", read).set("exclusive", options_.exclusive));
    }
    return {};
  }

  Status look_at_nodes() {
    const Result<Json> nodes = look_up(options_, "nodes");
    if (!nodes) return Status{};  // the user may see queues but not nodes
    for (const Json& node : nodes->items())
      findings_.check(kNode, Facts()
                                 .set("node", node.get("name").text())
                                 .set("mem_alarm", node.get("mem_alarm").is_true())
                                 .set("disk_free_alarm", node.get("disk_free_alarm").is_true()));
    return {};
  }

  Status look_at_exchange(const std::string& host) {
    const std::string path = "exchanges/" + host + "/" + percent_encoded(options_.exchange);
    const Result<Json> exchange = look_up(options_, path);
    if (!exchange) return fail(exchange.error());
    if (exchange->is_null()) return {};  // already reported
    const Result<Json> bindings = look_up(options_, path + "/bindings/source");
    if (!bindings) return fail(bindings.error());
    for (const Json& binding : bindings->items()) {
      if (binding.get("destination_type").text() == "queue")
        bound_.insert(binding.get("destination").text());
    }
    findings_.check(kExchange, Facts()
                                   .set("exchange", options_.exchange)
                                   .set("durable", exchange->get("durable").is_true())
                                   .set("auto_delete", exchange->get("auto_delete").is_true())
                                   .set("bindings", bindings->items().size()));
    return {};
  }

  const Options& options_;
  Clock& clock_;
  std::size_t payload_bytes_max_;
  std::set<std::string, std::less<>> bound_;  // queues bound to the exchange
  Findings findings_;
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
    const std::string ttl = setting(*found, "message-ttl").text();
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

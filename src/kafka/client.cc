#include "kafka/client.h"

#include <librdkafka/rdkafka.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "core/event/utf8.h"

namespace dovetail::kafka {

void destroy(rd_kafka_s* client) { rd_kafka_destroy(client); }
void destroy(rd_kafka_conf_s* configuration) { rd_kafka_conf_destroy(configuration); }
void destroy(rd_kafka_op_s* event) { rd_kafka_event_destroy(event); }
void destroy(rd_kafka_headers_s* headers) { rd_kafka_headers_destroy(headers); }
void destroy(rd_kafka_message_s* message) { rd_kafka_message_destroy(message); }
void destroy(rd_kafka_queue_s* queue) { rd_kafka_queue_destroy(queue); }
void destroy(rd_kafka_topic_s* topic) { rd_kafka_topic_destroy(topic); }
void destroy(rd_kafka_topic_partition_list_s* list) { rd_kafka_topic_partition_list_destroy(list); }

namespace {

struct Refused {
  std::string_view name;  // a trailing '.' matches every property with this prefix
  std::string_view why;
};

constexpr std::string_view kConfirmed = "a confirmation would not mean that the event is safe";
constexpr std::string_view kOrder = "the order of a key could be lost";
constexpr std::string_view kAcknowledged = "events would be acknowledged before they are applied";
constexpr std::string_view kOwnName = "dovetail has its own setting for it";
constexpr std::string_view kChecked = "the broker's certificate is always checked";
constexpr std::string_view kPartition = "the key of an event must always map to the same partition";
constexpr std::string_view kUnused = "dovetail does not use it";

constexpr std::array kRefused = {
    Refused{"acks", kConfirmed},
    Refused{"request.required.acks", kConfirmed},
    Refused{"enable.idempotence", kConfirmed},
    Refused{"delivery.report.only.error", kConfirmed},
    Refused{"message.timeout.ms", "a message that librdkafka gives up would leave a gap"},
    Refused{"delivery.timeout.ms", "a message that librdkafka gives up would leave a gap"},
    Refused{"retries", "a message that librdkafka gives up would leave a gap"},
    Refused{"message.send.max.retries", "a message that librdkafka gives up would leave a gap"},
    Refused{"max.in.flight", kOrder},
    Refused{"max.in.flight.requests.per.connection", kOrder},
    Refused{"enable.gapless.guarantee", kOrder},
    Refused{"queuing.strategy", kOrder},
    Refused{"transactional.id", kUnused},
    Refused{"transaction.timeout.ms", kUnused},
    Refused{"partitioner", kPartition},
    Refused{"allow.auto.create.topics", "a misspelled name would create a topic"},
    Refused{"enable.auto.commit", kAcknowledged},
    Refused{"auto.commit.enable", kAcknowledged},
    Refused{"auto.commit.interval.ms", kAcknowledged},
    Refused{"enable.auto.offset.store", kAcknowledged},
    Refused{"offset.store.", kAcknowledged},
    Refused{"auto.offset.reset",
            "events could be skipped silently; use dovetail's setting 'start'"},
    Refused{"isolation.level", "events of aborted transactions would be applied"},
    Refused{"enable.partition.eof", kUnused},
    Refused{"enabled_events", kUnused},
    Refused{"plugin.library.paths", "it loads code"},
    Refused{"ssl.engine.location", "it loads code"},
    Refused{"sasl.kerberos.kinit.cmd", "it runs a command"},
    Refused{"enable.ssl.certificate.verification", kChecked},
    Refused{"ssl.endpoint.identification.algorithm", kChecked},
    Refused{"bootstrap.servers", kOwnName},
    Refused{"metadata.broker.list", kOwnName},
    Refused{"security.protocol", kOwnName},
    Refused{"sasl.mechanism", kOwnName},
    Refused{"sasl.mechanisms", kOwnName},
    Refused{"sasl.username", kOwnName},
    Refused{"sasl.password", kOwnName},
    Refused{"ssl.ca.location", kOwnName},
    Refused{"ssl.certificate.location", kOwnName},
    Refused{"ssl.key.location", kOwnName},
    Refused{"group.id", kOwnName},
    Refused{"message.max.bytes", kOwnName},
    Refused{"linger.ms", kOwnName},
    Refused{"queue.buffering.max.ms", kOwnName},
};

const Refused* find_refused(std::string_view name) {
  for (const Refused& one : kRefused) {
    if (one.name == name || (one.name.ends_with('.') && name.starts_with(one.name))) return &one;
  }
  return nullptr;
}

void add_security(const Options& options, Properties& out) {
  const std::string_view protocol = options.user.empty() ? (options.tls ? "ssl" : "plaintext")
                                    : options.tls        ? "sasl_ssl"
                                                         : "sasl_plaintext";
  out.emplace_back("security.protocol", protocol);
  if (!options.user.empty()) {
    out.emplace_back("sasl.mechanisms", options.sasl_mechanism);
    out.emplace_back("sasl.username", options.user);
    out.emplace_back("sasl.password", options.password);
  }
  if (!options.tls) return;
  out.emplace_back("ssl.endpoint.identification.algorithm", "https");
  if (!options.ca_file.empty()) out.emplace_back("ssl.ca.location", options.ca_file);
  if (!options.cert_file.empty()) {
    out.emplace_back("ssl.certificate.location", options.cert_file);
    out.emplace_back("ssl.key.location", options.key_file);
  }
}

void add_producer(const Options& options, Properties& out) {
  out.emplace_back("acks", "all");
  out.emplace_back("enable.idempotence", "true");
  // A batch that fails for good ends the producer; otherwise librdkafka would number those behind
  // it anew and send them. One request at a time: nothing overtakes a batch that is sent again.
  out.emplace_back("enable.gapless.guarantee", "true");
  out.emplace_back("max.in.flight", "1");
  // Never: the relay decides how long to wait. librdkafka would give up one message and still send
  // later ones of its partition.
  out.emplace_back("message.timeout.ms", "0");
  out.emplace_back("partitioner", "murmur2_random");  // that of Kafka's own Java client
  out.emplace_back("linger.ms", std::to_string(to_milliseconds(options.linger)));
  // The sink counts payload, key and headers; librdkafka also counts the framing.
  out.emplace_back("message.max.bytes", std::to_string(options.message_bytes_max + (64 << 10)));
  // How long a new topic may stay unknown.
  out.emplace_back("topic.metadata.propagation.max.ms", "5000");
}

void add_consumer(const Options& options, Properties& out) {
  out.emplace_back("group.id", options.group);
  out.emplace_back("enable.auto.commit", "false");
  out.emplace_back("enable.auto.offset.store", "false");
  // The source chooses the start of a partition without a committed offset. So this applies only to
  // an offset that the topic no longer has.
  out.emplace_back("auto.offset.reset", "error");
  out.emplace_back("isolation.level", "read_committed");
  // How long the partitions of a dead member lie idle. Heartbeats come from a thread of librdkafka,
  // so a waiting relay stays a member.
  out.emplace_back("session.timeout.ms", "10000");
  // New topics that match a pattern are found within this time. The default is five minutes.
  out.emplace_back("topic.metadata.refresh.interval.ms", "10000");
  out.emplace_back("check.crcs", "true");
  out.emplace_back("queued.min.messages", "10000");
  out.emplace_back("queued.max.messages.kbytes", "16384");
}

bool may_be_secret(std::string_view name) {
  for (const std::string_view part : {"password", "secret", "pem", "oauthbearer"}) {
    if (name.find(part) != std::string_view::npos) return true;
  }
  return false;
}

// By default librdkafka logs to stderr. Everything that matters also arrives as an error.
void keep_silent(const rd_kafka_t*, int, const char*, const char*) {}

}  // namespace

Result<Properties> properties_of(const Options& options, Role role) {
  Properties out;
  out.emplace_back("bootstrap.servers", options.brokers);
  out.emplace_back("client.id", "dovetail");
  out.emplace_back("allow.auto.create.topics", "false");
  out.emplace_back("socket.keepalive.enable", "true");
  out.emplace_back("socket.nagle.disable", "true");
  out.emplace_back("socket.connection.setup.timeout.ms", "10000");
  out.emplace_back("reconnect.backoff.max.ms", "1000");
  add_security(options, out);
  if (role == Role::producer) add_producer(options, out);
  if (role == Role::consumer) add_consumer(options, out);
  for (const auto& [name, value] : options.properties) {
    if (const Refused* refused = find_refused(name))
      return fail(Errc::rejected, "the property " + name + " of librdkafka cannot be set: " +
                                      std::string(refused->why) + "; remove it");
    out.emplace_back(name, value);
  }
  return out;
}

Result<Handle<rd_kafka_conf_s>> make_configuration(const Properties& properties) {
  Handle<rd_kafka_conf_s> configuration(rd_kafka_conf_new());
  std::array<char, 512> why{};
  for (const auto& [name, value] : properties) {
    if (rd_kafka_conf_set(configuration.get(), name.c_str(), value.c_str(), why.data(),
                          why.size()) == RD_KAFKA_CONF_OK)
      continue;
    // The text of librdkafka quotes the value.
    const std::string what = may_be_secret(name) ? "invalid value" : std::string(why.data());
    return fail(Errc::rejected, "librdkafka rejects the property " + name + ": " + what +
                                    "; check its name and its value");
  }
  rd_kafka_conf_set_log_cb(configuration.get(), keep_silent);
  return configuration;
}

Result<Handle<rd_kafka_s>> make_client(Role role, Handle<rd_kafka_conf_s> configuration) {
  std::array<char, 512> why{};
  rd_kafka_t* client = rd_kafka_new(role == Role::consumer ? RD_KAFKA_CONSUMER : RD_KAFKA_PRODUCER,
                                    configuration.get(), why.data(), why.size());
  if (client == nullptr)
    return fail(Errc::rejected,
                "librdkafka rejects the settings: " + std::string(why.data()) +
                    "; check them, and that the key and certificate files are readable");
  (void)configuration.release();  // the client owns it now
  return Handle<rd_kafka_s>(client);
}

std::string_view topic_problem(std::string_view name) {
  if (name.empty()) return "it is empty";
  if (name.size() > 249) return "it is longer than 249 characters";
  if (name == "." || name == "..") return "'.' and '..' are not allowed";
  const auto allowed = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-';
  };
  if (!std::all_of(name.begin(), name.end(), allowed))
    return "only letters, digits, '.', '_' and '-' are allowed";
  return {};
}

Error connection_error(const Options& options, int code, std::string_view text) {
  std::string_view check = "check the address and that the broker runs";
  if (code == RD_KAFKA_RESP_ERR__AUTHENTICATION ||
      code == RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED)
    check = "check user, password and the SASL mechanism";
  else if (code == RD_KAFKA_RESP_ERR__SSL)
    check = "check ca_file and that the certificate names this host";
  else if (code == RD_KAFKA_RESP_ERR__RESOLVE)
    check = "check the host name";
  std::string line = stored_text(text, 400);
  std::replace_if(line.begin(), line.end(), [](unsigned char c) { return c < 0x20; }, ' ');
  return Error{Errc::unavailable,
               "Kafka at " + options.brokers + ": " + line + "; " + std::string(check)};
}

void ConnectErrors::note(int code, std::string_view text) {
  if (code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN) {
    all_down_ = true;
    // An earlier error says why.
    if (!text_.empty()) return;
  }
  if (is_final()) return;
  // A handshake that fails is sometimes reported as a connection that broke.
  if (code == RD_KAFKA_RESP_ERR__TRANSPORT && text.find("SSL routines") != std::string_view::npos)
    code = RD_KAFKA_RESP_ERR__SSL;
  code_ = code;
  text_ = std::string(text);
}

bool ConnectErrors::is_final() const {
  return code_ == RD_KAFKA_RESP_ERR__AUTHENTICATION || code_ == RD_KAFKA_RESP_ERR__SSL ||
         code_ == RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED;
}

bool broker_answers(rd_kafka_s* client, int timeout_ms, ConnectErrors& connect_errors) {
  const rd_kafka_metadata_t* metadata = nullptr;
  const rd_kafka_resp_err_t code = rd_kafka_metadata(client, 0, nullptr, &metadata, timeout_ms);
  if (metadata != nullptr) rd_kafka_metadata_destroy(metadata);
  if (code != RD_KAFKA_RESP_ERR_NO_ERROR && code != RD_KAFKA_RESP_ERR__TIMED_OUT &&
      code != RD_KAFKA_RESP_ERR__TRANSPORT)
    connect_errors.note(code, rd_kafka_err2str(code));
  return code == RD_KAFKA_RESP_ERR_NO_ERROR;
}

int to_milliseconds(Duration duration) {
  return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(duration).count());
}

}  // namespace dovetail::kafka

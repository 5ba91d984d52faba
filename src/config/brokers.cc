#include "config/brokers.h"

#include <algorithm>
#include <charconv>
#include <deque>
#include <iterator>
#include <optional>
#include <utility>

#include "config/stores.h"
#include "config/tables.h"
#include "core/message/event_template.h"

namespace dovetail::config {
namespace {

namespace fs = std::filesystem;

// "name", "name:port" or "[number]:port".
std::optional<net::Endpoint> host_of(std::string_view text) {
  net::Endpoint host;
  std::string_view rest;
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos) return std::nullopt;
    host.host = text.substr(1, end - 1);
    rest = text.substr(end + 1);
  } else {
    const std::size_t end = std::min(text.find(':'), text.size());
    host.host = text.substr(0, end);
    rest = text.substr(end);
  }
  const bool is_plain = std::all_of(host.host.begin(), host.host.end(), [](char c) {
    return c > ' ' && c < 0x7f && std::string_view("[]/\\?#@\"'").find(c) == std::string_view::npos;
  });
  if (host.host.empty() || !is_plain) return std::nullopt;
  if (rest.empty()) return host;
  const char* const end = rest.data() + rest.size();
  const auto [stopped, error] = std::from_chars(rest.data() + 1, end, host.port);
  if (rest.front() != ':' || error != std::errc() || stopped != end || host.port == 0) {
    return std::nullopt;
  }
  return host;
}

// What is wrong with the url. Does not quote it: it may contain a secret by mistake.
std::optional<std::string> read_url(std::string_view url, const UrlScheme& scheme,
                                    StoreConfig& store) {
  BrokerConfig& broker = store.broker;
  std::string_view rest = url.substr(scheme.prefix.size());
  std::string_view authority = rest.substr(0, rest.find_first_of("/?#"));
  const bool is_web = scheme.scheme == StoreScheme::http;
  if ((is_web ? authority : rest).find('@') != std::string_view::npos) {
    return "the url must not contain user or password; use the keys \"user\", and \"password_env\" "
           "or "
           "\"password_file\"";
  }
  const std::string form = "must be " + in_quotes(scheme.form);
  rest.remove_prefix(authority.size());
  while (true) {
    const std::size_t comma = authority.find(',');
    const auto host = host_of(authority.substr(0, comma));
    if (!host) return form + "; check the host and the port";
    broker.hosts.push_back(*host);
    if (comma == std::string_view::npos) break;
    if (!scheme.several_hosts) return form + "; only one host is allowed";
    authority.remove_prefix(comma + 1);
  }
  if (!rest.empty() && rest != "/" && !scheme.has_path)
    return form + "; nothing may follow the hosts";
  if (!is_web && rest.find_first_of("?#") != std::string_view::npos) {
    return form + "; other settings have their own keys";
  }
  if (!rest.empty()) broker.path = rest.substr(rest.front() == '/' ? 1 : 0);
  broker.url = url;
  broker.tls = scheme.tls;
  store.scheme = scheme.scheme;
  store.shown = url;
  // Only their path and query may protect an endpoint.
  if (is_web && rest.size() > 1) {
    store.shown = url.substr(0, url.size() - rest.size());
    store.shown += "/...";
  }
  return std::nullopt;
}

std::string check_template(const std::string& text) {
  const auto parsed = EventTemplate::parse(text);
  return parsed ? "" : parsed.error().text;
}

void declare_access(StoreConfig& store, const fs::path& folder, Settings& keys) {
  BrokerConfig& broker = store.broker;
  const auto without_tls = [&broker]() -> std::string {
    return broker.tls ? std::string() : std::string(kWithoutTls);
  };
  keys.text("user", broker.user, "The user name.");
  keys.text("password_env", store.password_env,
            "The environment variable that holds the password.");
  keys.file("password_file", store.password_file, folder,
            "The file whose first line is the password.");
  keys.file("ca_file", broker.ca_file, folder,
            "The authority that must have issued the server's certificate.")
      .otherwise("what the system trusts")
      .only_for("TLS", without_tls);
  keys.file("cert_file", broker.cert_file, folder,
            "The certificate of the client, or of the HTTP endpoint.")
      .only_for("TLS", without_tls);
  keys.file("key_file", broker.key_file, folder, "The key of `cert_file`.")
      .only_for("TLS", without_tls);
}

void declare_messages(BrokerConfig& broker, Settings& keys) {
  MessageOptions& message = broker.message;
  keys.choice<MessageFormat>("format", message.format,
                             {{"cloudevents", MessageFormat::cloudevents},
                              {"debezium", MessageFormat::debezium},
                              {"raw", MessageFormat::raw}},
                             "The format of messages that the relay sends.");
  keys.text("source", message.source, "The CloudEvents attribute of that name: who publishes.");
  keys.text("key", message.key,
            "The key of a message: a template with the fields of `topic` of a relay, and "
            "`{topic}`.")
      .check([&message] { return check_template(message.key); });
  keys.text("partition", message.partition, "Kafka: a template of a number.")
      .otherwise("the client decides")
      .check([&message] { return check_template(message.partition); });
  keys.table("headers",
             "More headers, each a template: `headers = { tenant = \"{header.tenant}\" }`.");
  ForeignNames& foreign = broker.foreign;
  keys.text("id_header", foreign.id,
            "The header that carries the event's id in messages of other programs.");
  keys.text("type_header", foreign.type, "The same for the event's type.");
  keys.text("aggregate_type_header", foreign.aggregate_type,
            "The same for the type of the aggregate.");
  keys.text("aggregate_id_header", foreign.aggregate_id, "The same for the id of the aggregate.");
}

void read_headers(Section& section, MessageOptions& message) {
  section.table("headers", [&](Section& headers) {
    Settings keys;
    std::deque<std::string> values;
    headers.each([&](const std::string& name, const Value&) {
      std::string& value = values.emplace_back();
      keys.text(name, value, "").check([&value] { return check_template(value); });
    });
    headers.read(keys);
    std::size_t next = 0;
    headers.each([&](const std::string& name, const Value&) {
      message.headers.emplace_back(name, std::move(values[next++]));
    });
  });
}

void check_source(Section& section, const RelayConfig& relay, const StoreConfig& from,
                  const Config& config) {
  const std::string the_store = "the store " + in_quotes(relay.from);
  if (from.broker.read.empty() && from.scheme != StoreScheme::http) {
    section.wrong("from",
                  the_store + " needs \"read\": the topics, queues, subjects or streams to read");
  }
  for (const RelayConfig* other : config.readers()) {
    if (other->from != relay.from) continue;
    section.wrong("from", in_quotes(other->name) + " reads " + the_store +
                              ", too, and they would take messages from each other; give each its "
                              "own store with its own group");
  }
}

}  // namespace

bool is_broker_url(std::string_view url) { return url_scheme_of(url) != nullptr; }

void declare_broker(StoreConfig& store, const fs::path& folder, Settings& keys) {
  BrokerConfig& broker = store.broker;
  keys.parsed(
          "url", "url",
          [&store](const std::string& url) {
            return read_url(url, *url_scheme_of(url), store).value_or("");
          },
          broker_forms() + ". A user or a password in it is an error.")
      .required();
  declare_access(store, folder, keys);
  declare_messages(broker, keys);
  keys.size("payload_max", store.payload_bytes_max, 1,
            "The largest payload that the relay sends there.")
      .otherwise("the broker's own limit");
  keys.texts("read", broker.read, "What a relay reads there: topics, queues, subjects or streams.");
  keys.text("group", broker.group, "The group of consumers that reads.")
      .otherwise("the relay's name");
  keys.table("settings", "`[store.NAME.settings]`: settings that only this broker has, see below.");
}

void read_broker(Section& section, StoreConfig& store, const fs::path& file) {
  store.where = section.place("url");
  store.broker.file = file;
  store.payload_bytes_max = 0;
  Settings keys;
  declare_broker(store, file.parent_path(), keys);
  section.read(keys);
  read_headers(section, store.broker.message);
  section.table("settings", [&](Section& settings) { store.broker.settings = settings.value(); });
  check_password(section);
  check_pair(section, "cert_file", "key_file");
}

void read_broker_relay(Section& section, RelayConfig& relay, Config& config) {
  const StoreConfig* to = config.find_store(relay.to);
  if (to != nullptr && to->is_broker() && !section.has("topic") &&
      to->broker.message.format == MessageFormat::debezium) {
    relay.topic = "outbox.event.{aggregate_type}";
  }
  const StoreConfig* from = config.find_store(relay.from);
  if (from == nullptr || !from->is_broker()) return;
  const std::string the_store = "the store " + in_quotes(relay.from);
  if (to != nullptr && !to->type().has_mailbox) {
    section.wrong("to", the_store +
                            " is a broker, but a relay that reads a broker fills the mailbox "
                            "of a SQLite store, which also keeps its parked events; name such a "
                            "store, or use a [[consumer]]");
  }
  read_broker_source(section, relay, config);
}

void read_broker_source(Section& section, RelayConfig& relay, Config& config) {
  for (StoreConfig& from : config.stores) {
    if (from.name != relay.from || !from.is_broker()) continue;
    check_source(section, relay, from, config);
    if (from.broker.group.empty()) from.broker.group = relay.name;
    if (!section.has("topic")) relay.topic.clear();
  }
}

}  // namespace dovetail::config

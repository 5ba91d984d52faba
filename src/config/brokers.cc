#include "config/brokers.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>
#include <utility>

#include "core/message/event_template.h"

namespace dovetail::config {
namespace {

namespace fs = std::filesystem;

// "name", "name:port" or "[number]:port".
std::optional<BrokerConfig::Host> host_of(std::string_view text) {
  BrokerConfig::Host host;
  std::string_view rest;
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos) return std::nullopt;
    host.name = text.substr(1, end - 1);
    rest = text.substr(end + 1);
  } else {
    const std::size_t end = std::min(text.find(':'), text.size());
    host.name = text.substr(0, end);
    rest = text.substr(end);
  }
  const bool is_plain = std::all_of(host.name.begin(), host.name.end(), [](char c) {
    return c > ' ' && c < 0x7f && std::string_view("[]/\\?#@\"'").find(c) == std::string_view::npos;
  });
  if (host.name.empty() || !is_plain) return std::nullopt;
  if (rest.empty()) return host;
  const char* const end = rest.data() + rest.size();
  const auto [stopped, error] = std::from_chars(rest.data() + 1, end, host.port);
  if (rest.front() != ':' || error != std::errc() || stopped != end || host.port == 0) {
    return std::nullopt;
  }
  return host;
}

// What is wrong with the url. Never repeats any of it: a secret may stand in it by mistake.
std::optional<std::string> read_url(std::string_view url, const UrlScheme& scheme,
                                    StoreConfig& store) {
  BrokerConfig& broker = store.broker;
  std::string_view rest = url.substr(scheme.prefix.size());
  std::string_view authority = rest.substr(0, rest.find_first_of("/?#"));
  const bool is_web = scheme.scheme == StoreScheme::http;
  if ((is_web ? authority : rest).find('@') != std::string_view::npos) {
    return "a user or password must not stand in the url; write \"user\", and \"password_env\" or "
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
    if (!scheme.several_hosts) return form + "; there can be one host only";
    authority.remove_prefix(comma + 1);
  }
  if (!rest.empty() && rest != "/" && !scheme.has_path) return form + "; nothing follows the hosts";
  if (!is_web && rest.find_first_of("?#") != std::string_view::npos) {
    return form + "; what else there is to say stands in keys of its own";
  }
  if (!rest.empty()) broker.path = rest.substr(rest.front() == '/' ? 1 : 0);
  broker.url = url;
  broker.tls = scheme.tls;
  store.scheme = scheme.scheme;
  store.shown = url;
  // The path and the query of an endpoint may be all that keeps strangers from it.
  if (is_web && rest.size() > 1) {
    store.shown = url.substr(0, url.size() - rest.size());
    store.shown += "/...";
  }
  return std::nullopt;
}

void read_template(Section& section, std::string_view key, std::string& out) {
  section.text(key, out);
  if (out.empty()) return;
  if (const auto parsed = EventTemplate::parse(out); !parsed) {
    section.wrong(key, parsed.error().text);
  }
}

void read_message(Section& section, MessageOptions& message) {
  section.choice<MessageFormat>("format", message.format,
                                {{"cloudevents", MessageFormat::cloudevents},
                                 {"debezium", MessageFormat::debezium},
                                 {"raw", MessageFormat::raw}});
  section.text("source", message.source);
  read_template(section, "key", message.key);
  read_template(section, "partition", message.partition);
  section.table("headers", [&](Section& headers) {
    headers.each_key([&](std::string_view name) {
      std::string value;
      read_template(headers, name, value);
      message.headers.emplace_back(name, std::move(value));
    });
  });
}

void read_secrets(Section& section, StoreConfig& store, const fs::path& folder) {
  BrokerConfig& broker = store.broker;
  section.text("user", broker.user);
  section.text("password_env", store.password_env);
  const auto file = [&](std::string_view key, fs::path& out) {
    std::string written;
    section.text(key, written);
    if (!written.empty()) out = (folder / written).lexically_normal();
  };
  file("password_file", store.password_file);
  file("ca_file", broker.ca_file);
  file("cert_file", broker.cert_file);
  file("key_file", broker.key_file);
  if (!store.password_env.empty() && !store.password_file.empty()) {
    section.wrong("password_file", "there is password_env too; keep one of them");
  }
  for (const std::string_view key : {"ca_file", "cert_file", "key_file"}) {
    if (section.has(key) && !broker.tls) {
      section.wrong(key, "the url has a scheme without TLS; choose that with TLS, or remove this");
    }
  }
  if (broker.cert_file.empty() != broker.key_file.empty()) {
    section.wrong(broker.cert_file.empty() ? "key_file" : "cert_file",
                  "a certificate of the client needs both cert_file and key_file");
  }
}

void read_settings(Section& section, BrokerConfig& broker) {
  section.table("settings", [&](Section& settings) {
    settings.each_key([&](std::string_view key) {
      BrokerConfig::Setting setting;
      setting.where = settings.place(key);
      settings.plain(key, setting.value);
      broker.settings.emplace(key, std::move(setting));
    });
  });
}

void check_source(Section& section, const RelayConfig& relay, const StoreConfig& from,
                  const Config& config) {
  const std::string the_store = "the store " + in_quotes(relay.from);
  if (from.broker.read.empty() && from.scheme != StoreScheme::http) {
    section.wrong("from", the_store + " needs \"read\", a list of what is read there");
  }
  for (const RelayConfig* other : config.readers()) {
    if (other->from != relay.from) continue;
    section.wrong("from", in_quotes(other->name) + " reads " + the_store +
                              " too, and each would take messages away from the other; give each a "
                              "store of its own, with a group of its own");
  }
}

}  // namespace

bool is_broker_url(std::string_view url) { return url_scheme_of(url) != nullptr; }

void read_broker(Section& section, StoreConfig& store, const std::string& url,
                 const fs::path& folder) {
  store.where = section.place("url");
  store.broker.folder = folder;
  if (const auto wrong = read_url(url, *url_scheme_of(url), store)) section.wrong("url", *wrong);
  read_secrets(section, store, folder);
  read_message(section, store.broker.message);
  store.payload_bytes_max = 0;
  section.size("payload_max", store.payload_bytes_max, 1);
  ForeignNames& foreign = store.broker.foreign;
  section.text("id_header", foreign.id);
  section.text("type_header", foreign.type);
  section.text("aggregate_type_header", foreign.aggregate_type);
  section.text("aggregate_id_header", foreign.aggregate_id);
  section.texts("read", store.broker.read);
  section.text("group", store.broker.group);
  read_settings(section, store.broker);
  section.close();
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
                            " is a broker, and what a relay takes from one goes into the mailbox "
                            "of a SQLite store, where its parked events live too; name one of "
                            "those, or write a [[consumer]]");
  }
  for (const std::string_view key : {"lanes", "table"}) {
    if (section.has(key)) section.wrong(key, the_store + " is a broker; remove it");
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

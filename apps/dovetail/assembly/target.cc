#include "assembly/target.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "assembly/stores.h"
#include "core/event/sha256.h"

namespace dovetail::app {
namespace {

namespace fs = std::filesystem;
using config::StoreConfig;
using config::StoreScheme;

std::uint16_t usual_port(const StoreConfig& store) {
  switch (store.scheme) {
    case StoreScheme::kafka:
      return 9092;
    case StoreScheme::rabbitmq:
      return store.broker.tls ? 5671 : 5672;
    case StoreScheme::nats:
      return 4222;
    case StoreScheme::redis:
      return 6379;
    case StoreScheme::http:
      return store.broker.tls ? 443 : 80;
    case StoreScheme::sqlite:
    case StoreScheme::postgres:
      break;
  }
  return 0;
}

// In one order, because the order says nothing about the cluster.
std::string hosts_of(const StoreConfig& store) {
  std::vector<std::string> hosts;
  for (const config::BrokerConfig::Host& host : store.broker.hosts) {
    const std::uint16_t port = host.port == 0 ? usual_port(store) : host.port;
    hosts.push_back(host.name + ":" + std::to_string(port));
  }
  std::sort(hosts.begin(), hosts.end());
  std::string text;
  for (const std::string& host : hosts) text += (text.empty() ? "" : ",") + host;
  return text;
}

std::string setting(const StoreConfig& store, std::string_view key) {
  const auto found = store.broker.settings.find(key);
  return found == store.broker.settings.end() ? "" : found->second.value;
}

// The path of an endpoint may be its secret, so only its digest is kept.
std::string digest_of(const std::string& path) {
  return path.empty() ? "" : " path " + to_hex(Sha256().add(path).finish()).substr(0, 12);
}

std::string broker_of_text(const StoreConfig& store) {
  std::string text(to_string(store.scheme));
  text += " " + hosts_of(store);
  const std::string& path = store.broker.path;
  if (store.scheme == StoreScheme::http) return text + digest_of(path);
  if (store.scheme == StoreScheme::redis) return text + "/" + (path.empty() ? "0" : path);
  if (!path.empty()) text += "/" + path;
  if (const std::string exchange = setting(store, "exchange"); !exchange.empty())
    text += " exchange " + exchange;
  if (const std::string prefix = setting(store, "topic_prefix"); !prefix.empty())
    text += " topics " + prefix + "*";
  return text;
}

// Two files that move together stay the same to each other.
std::string file_text(const StoreConfig& store, const StoreConfig& home) {
  std::error_code failed;
  const fs::path path = fs::weakly_canonical(store.path, failed);
  if (failed) return "sqlite " + store.path.string();
  if (home.scheme != StoreScheme::sqlite) return "sqlite " + path.string();
  const fs::path folder = fs::weakly_canonical(home.path, failed).parent_path();
  return "sqlite " + (failed ? path : path.lexically_relative(folder)).string();
}

// What people are shown of it, without the user.
std::string server_text(const StoreConfig& store) {
  std::string text = "postgres";
  std::string_view rest = store.shown;
  rest.remove_prefix(std::min(rest.size(), rest.find(':') + 1));
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    const std::string_view word = rest.substr(0, end);
    if (!word.starts_with("user=")) text += " " + std::string(word);
    rest.remove_prefix(std::min(rest.size(), end + 1));
  }
  return text;
}

}  // namespace

std::string target_of(const config::Config& config, const config::RelayConfig& relay) {
  const StoreConfig& home = home_of(relay, config);
  const StoreConfig& other = *config.find_store(home.name == relay.from ? relay.to : relay.from);
  if (other.is_broker()) return broker_of_text(other);
  if (other.name == home.name) return "the same database";
  return other.scheme == StoreScheme::postgres ? server_text(other) : file_text(other, home);
}

}  // namespace dovetail::app

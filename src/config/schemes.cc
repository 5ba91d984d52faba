#include "config/schemes.h"

#include <algorithm>
#include <iterator>

#include "core/check.h"

namespace dovetail::config {
namespace {

using enum StoreScheme;

constexpr StoreType kTypes[] = {
    {.scheme = sqlite, .name = "SQLite", .build_option = "DOVETAIL_SQLITE", .has_mailbox = true},
    {.scheme = postgres,
     .name = "PostgreSQL",
     .build_option = "DOVETAIL_POSTGRES",
     .has_lanes = true,
     .has_wal = true,
     .has_mapped_tables = true,
     .has_functions = true,
     .has_roles = true,
     .has_delayed_events = true,
     .needs_maintenance = true},
    {.scheme = kafka, .name = "Kafka", .build_option = "DOVETAIL_KAFKA", .is_broker = true},
    {.scheme = rabbitmq,
     .name = "RabbitMQ",
     .build_option = "DOVETAIL_RABBITMQ",
     .is_broker = true},
    {.scheme = nats, .name = "NATS", .build_option = "DOVETAIL_NATS", .is_broker = true},
    {.scheme = redis, .name = "Redis", .build_option = "DOVETAIL_REDIS", .is_broker = true},
    {.scheme = http, .name = "HTTP", .build_option = "DOVETAIL_HTTP", .is_broker = true}};

constexpr UrlScheme kUrls[] = {
    {"kafka://", kafka, false, true, false, 9092, "kafka://HOST:PORT[,HOST:PORT]"},
    {"kafka+tls://", kafka, true, true, false, 9092, "kafka+tls://HOST:PORT[,HOST:PORT]"},
    {"amqp://", rabbitmq, false, false, true, 5672, "amqp://HOST:PORT/VHOST"},
    {"amqps://", rabbitmq, true, false, true, 5671, "amqps://HOST:PORT/VHOST"},
    {"nats://", nats, false, true, false, 4222, "nats://HOST:PORT[,HOST:PORT]"},
    {"nats+tls://", nats, true, true, false, 4222, "nats+tls://HOST:PORT[,HOST:PORT]"},
    {"redis://", redis, false, false, true, 6379, "redis://HOST:PORT/DATABASE", "0"},
    {"rediss://", redis, true, false, true, 6379, "rediss://HOST:PORT/DATABASE", "0"},
    {"http://", http, false, false, true, 80, "http://HOST:PORT/PATH"},
    {"https://", http, true, false, true, 443, "https://HOST:PORT/PATH"}};

}  // namespace

const StoreType& type_of(StoreScheme scheme) {
  const auto* const found =
      std::find_if(std::begin(kTypes), std::end(kTypes),
                   [scheme](const StoreType& one) { return one.scheme == scheme; });
  DOVETAIL_CHECK(found != std::end(kTypes));
  return *found;
}

std::string_view to_string(StoreScheme scheme) { return type_of(scheme).name; }

std::string kinds_with(bool StoreType::* ability) {
  std::string names;
  for (const StoreType& one : kTypes) {
    if (one.*ability) names += (names.empty() ? "" : " or ") + std::string(one.name);
  }
  return names;
}

const UrlScheme* url_scheme_of(std::string_view url) {
  const auto* const found =
      std::find_if(std::begin(kUrls), std::end(kUrls),
                   [url](const UrlScheme& one) { return url.starts_with(one.prefix); });
  return found == std::end(kUrls) ? nullptr : found;
}

const UrlScheme& url_scheme_of(StoreScheme scheme, bool tls) {
  const auto* const found =
      std::find_if(std::begin(kUrls), std::end(kUrls),
                   [&](const UrlScheme& one) { return one.scheme == scheme && one.tls == tls; });
  DOVETAIL_CHECK(found != std::end(kUrls));
  return *found;
}

std::string broker_forms() {
  std::string text;
  for (const UrlScheme& one : kUrls)
    text += (text.empty() ? "`" : ", `") + std::string(one.form) + "`";
  return text;
}

std::string broker_prefixes() {
  std::string text;
  for (const UrlScheme& one : kUrls) {
    if (!text.empty()) text += &one == std::end(kUrls) - 1 ? " or " : ", ";
    text += one.prefix;
  }
  return text;
}

}  // namespace dovetail::config

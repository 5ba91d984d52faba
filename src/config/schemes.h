// The kinds of stores, and how their urls begin. A new kind is a value and rows in schemes.cc.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dovetail::config {

enum class StoreScheme : std::uint8_t { sqlite, postgres, kafka, rabbitmq, nats, redis, http };

// The name of a kind of store, and what it can do.
struct StoreType {
  StoreScheme scheme;
  std::string_view name;          // as people write it
  std::string_view build_option;  // the CMake option
  bool is_broker = false;
  bool has_mailbox = false;         // a relay can fill it
  bool has_lanes = false;           // its relays split the keys into lanes
  bool has_wal = false;             // a relay can read its WAL
  bool has_mapped_tables = false;   // a relay can serve an application's own table
  bool has_functions = false;       // handlers can be SQL functions or a queue
  bool has_roles = false;           // of dovetail
  bool has_delayed_events = false;  // events can have a later delivery time
  bool needs_maintenance = false;   // even if nothing is ever deleted
};
const StoreType& type_of(StoreScheme scheme);
std::string_view to_string(StoreScheme scheme);
// The kinds that have it: "PostgreSQL".
std::string kinds_with(bool StoreType::* ability);

// How a broker's url begins, and what may follow.
struct UrlScheme {
  std::string_view prefix;
  StoreScheme scheme;
  bool tls;
  bool several_hosts;
  bool has_path;
  std::uint16_t port;  // the default
  std::string_view form;
  std::string_view path = {};  // the default
};
// Null: not a broker's url.
const UrlScheme* url_scheme_of(std::string_view url);
// REQUIRES: `scheme` is a broker.
const UrlScheme& url_scheme_of(StoreScheme scheme, bool tls);
// All prefixes: "kafka://, ... or https://".
std::string broker_prefixes();
// For the reference: "`kafka://HOST:PORT[,HOST:PORT]`, ...".
std::string broker_forms();

}  // namespace dovetail::config

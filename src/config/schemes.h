// The kinds of stores, and how their urls begin. A new kind is a value and its rows in schemes.cc.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dovetail::config {

enum class StoreScheme : std::uint8_t { sqlite, postgres, kafka, rabbitmq, nats, redis, http };

// What a kind of store has, and what it is called.
struct StoreType {
  StoreScheme scheme;
  std::string_view name;          // as people write it
  std::string_view build_option;  // of CMake
  bool is_broker = false;
  bool has_mailbox = false;         // a relay can fill it
  bool has_lanes = false;           // its relays are split by keys
  bool has_wal = false;             // a relay can read its write-ahead log
  bool has_mapped_tables = false;   // a relay can serve a table that exists already
  bool has_functions = false;       // handlers can be SQL functions or a queue
  bool has_roles = false;           // of dovetail
  bool has_delayed_events = false;  // events can be published for later
  bool needs_maintenance = false;   // also where nothing is ever deleted
};
const StoreType& type_of(StoreScheme scheme);
std::string_view to_string(StoreScheme scheme);
// The names of the kinds that have it: "PostgreSQL".
std::string kinds_with(bool StoreType::* ability);

// How the url of a broker begins, and what may follow.
struct UrlScheme {
  std::string_view prefix;
  StoreScheme scheme;
  bool tls;
  bool several_hosts;
  bool has_path;
  std::uint16_t port;  // where none is written
  std::string_view form;
  std::string_view path = {};  // where none is written
};
// Null: it is none of a broker.
const UrlScheme* url_scheme_of(std::string_view url);
// REQUIRES: it is a broker.
const UrlScheme& url_scheme_of(StoreScheme scheme, bool tls);
// All of them: "kafka://, ... or https://".
std::string broker_prefixes();
// As the reference shows them: "`kafka://HOST:PORT[,HOST:PORT]`, ...".
std::string broker_forms();

}  // namespace dovetail::config

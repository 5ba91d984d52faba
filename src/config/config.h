// The configuration file: the stores, and the relays between them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/keys/value.h"
#include "config/schemes.h"
#include "core/message/message.h"
#include "core/operations.h"
#include "core/relay/read_mode.h"
#include "core/relay/relay.h"
#include "dovetail/result.h"
#include "gateway/options.h"
#include "host/stream.h"
#include "server/endpoint.h"

namespace dovetail::config {

// A mapped table: an application's own table that a relay serves. The texts are those of the file;
// the store's database interprets them.
struct TableConfig {
  std::string where;     // file:line:column and key, for later errors
  std::string preset{};  // empty: everything is mapped by hand
  std::string name{};    // empty: the preset's table
  // All other keys and their texts: column names and constants, conditions and assignments, and the
  // columns that become headers, by header.
  std::map<std::string, std::string, std::less<>> texts{};
  std::map<std::string, std::vector<std::string>, std::less<>> lists{};
  std::map<std::string, std::string, std::less<>> header_columns{};
  std::optional<bool> delete_when_done{};
  // From the relay's mode, slot and publication.
  bool from_wal = false;
  std::string slot{};
  std::string publication{};
};

// How to reach a broker, and how its messages look.
// The scheme says whether TLS is spoken. The password is read from password_env or password_file
// when needed, and never shown. Files are relative to the configuration file.
struct BrokerConfig : net::Access {
  std::string url{};                   // as written; it may not contain a user or password
  std::vector<net::Endpoint> hosts{};  // of the url; a port of 0 is the broker's default
  std::string path{};                  // of the url, after the host: virtual host, database, path
  MessageOptions message{};            // format, source, key, partition, headers
  ForeignNames foreign{};  // id_header, type_header, aggregate_type_header, aggregate_id_header
  std::vector<std::string> read{};  // topics, queues, subjects or streams, if it is a source
  std::string group{};              // the consumer group of a source; default: the relay's
  // [store.NAME.settings]: keys of this broker's adapter, which declares them.
  Value settings{Value::Table{}};
  std::filesystem::path file{};  // the configuration file, for errors and for paths in settings
};

struct StoreConfig {
  std::string name;
  StoreScheme scheme = StoreScheme::sqlite;
  std::string where{};           // file:line:column and key of the url, for later errors
  std::filesystem::path path{};  // of a "sqlite:" url, relative to the configuration file
  // From a "postgres:" url, for libpq. Never shown: the url may contain a secret by mistake, and
  // the password is added here.
  std::string conninfo{};
  // "replication_url": the same server without a pooler, to read the WAL; empty: conninfo.
  std::string replication_conninfo{};
  std::string replication_where{};        // file:line:column and key
  std::string password_env{};             // the variable with the password
  std::filesystem::path password_file{};  // or the file with it, relative to the configuration file
  std::string shown{};                    // the place as people and logs may see it
  std::string unusable{};  // why it cannot be used: a secret is missing; empty: it can be used
  std::size_t payload_bytes_max = EventLimits{}.payload_bytes_max;  // 0 for a broker: its own limit
  std::vector<std::string> topics;  // accepted by its mailbox; empty: every topic
  std::map<std::string, TableConfig, std::less<>> tables{};  // by relay name
  BrokerConfig broker{};                                     // if it is a broker

  const StoreType& type() const { return type_of(scheme); }
  bool is_broker() const { return type().is_broker; }
};

struct RelayConfig {
  std::string name;  // also names its progress and its lease
  std::string from;  // a store: its outbox, the table that it has for this relay, or else a broker
  std::string to;    // a store: its mailbox, or a broker
  std::uint32_t lanes = 1;                        // of a PostgreSQL store; set by the first start
  std::string topic = "{aggregate_type}.events";  // empty: as the source gave it
  Duration lease = std::chrono::seconds(10);
  // For PostgreSQL: read the WAL if possible and faster (auto), always through a lasting slot
  // (wal), or read the table (poll).
  ReadOptions reading{};
  // Slot and publication of another program for a mapped table; empty: dovetail makes them.
  std::string slot{};
  std::string publication{};
  // `name=pattern`, as in the file; parsed in options.filter.
  std::vector<std::string> header_patterns{};
  bool starts_now = false;  // at the first start, events that are there already are left out
  RelayOptions options;
};

// What a consumer does with an event.
struct HandlerConfig {
  enum class Kind : std::uint8_t {
    sql,      // calls a function of the consumer's database, in its transaction
    queue,    // writes a row to dovetail.queue, in its transaction; a worker takes it from there
    http,     // sends a request to an endpoint, outside the transaction: at least once
    command,  // runs a program, also outside
  };
  std::string where{};  // file:line:column, for later errors
  std::string name{};   // empty: the consumer's only handler
  Kind kind = Kind::sql;
  std::vector<std::string> types{};             // of events: "order.placed", "order.*"; empty: all
  std::string function{};                       // sql: the function, with or without schema
  bool batch = false;                           // sql: the function takes dovetail.event[]
  std::string store{};                          // http: a store with an http url
  std::vector<std::string> command{};           // the program and its arguments
  Duration timeout = std::chrono::seconds(30);  // for one run of the command
  std::vector<std::string> environment{};       // command: our variables that it gets

  // Its effect is not in the consumer's transaction.
  bool is_external() const { return kind == Kind::http || kind == Kind::command; }
};

struct ConsumerConfig {
  // `to`: the database with the inbox. `from`: the store that is read. `relay.lanes`: how many
  // connections share the keys.
  RelayConfig relay = small_batches();
  SourceKind source = SourceKind::outbox;  // that is read
  std::vector<std::string> topics{};       // only these; empty: all
  bool version_guard = false;
  Duration claim = std::chrono::seconds(60);  // then another consumer may repeat an external call
  std::vector<HandlerConfig> handlers{};

 private:
  // A batch is one transaction of the inbox.
  static RelayConfig small_batches() {
    RelayConfig relay;
    relay.options.batch_events_max = 500;
    return relay;
  }
};

// [gateway]: a proxy before an HTTP service; each request with an idempotency key runs once.
struct GatewayConfig {
  http::GatewayOptions options{};
  std::string store{};  // the database with the answers
  Duration drain_timeout = std::chrono::seconds(30);
};

// What somebody may do through [http]. Each role may do what those before it may.
enum class Role : std::uint8_t { nobody, viewer, operator_, admin };
std::string_view to_string(Role role);

// [http]: where the daemon answers operators and monitoring.
struct HttpConfig {
  http::EndpointOptions endpoint{};
  std::filesystem::path tokens_file{};  // empty: there are no tokens
  std::optional<Role> without_token{};
  std::vector<std::string> hosts{};  // names of the listener, besides its address

  Role role_without_token() const {
    return without_token.value_or(tokens_file.empty() ? Role::viewer : Role::nobody);
  }
};

struct RetentionConfig {
  std::optional<Duration> delivered;  // events that every relay has delivered or parked
  std::optional<Duration> inbox;      // events that consumers remember, to recognise duplicates
  Duration every = std::chrono::minutes(10);  // how often the daemon deletes

  bool wanted() const { return delivered.has_value() || inbox.has_value(); }
};

// [alerts]: what is worth an alert, and who gets it.
struct AlertsConfig {
  std::string to{};  // a store with an http url; empty: nobody
  Duration away_max = std::chrono::minutes(1);
  Duration lag_max = std::chrono::minutes(5);
};

enum class LogFormat : std::uint8_t { text, json };
enum class LogLevel : std::uint8_t { debug, info, warn, error };

struct LogConfig {
  LogFormat format = LogFormat::text;
  LogLevel level = LogLevel::info;
};

struct Config {
  std::filesystem::path file;
  std::vector<StoreConfig> stores;
  std::vector<RelayConfig> relays;
  std::vector<ConsumerConfig> consumers;
  std::optional<GatewayConfig> gateway;
  std::optional<HttpConfig> http;
  AlertsConfig alerts;
  RetentionConfig retention;
  LogConfig log;
  // Variables of the environment that the file uses, with their values, which may be secrets.
  std::vector<std::pair<std::string, std::string>> variables{};

  const StoreConfig* find_store(std::string_view name) const;
  // By its name, or by one of its handlers: "stock.mail".
  const ConsumerConfig* find_consumer(std::string_view name) const;
  // All relays, including those of consumers.
  std::vector<const RelayConfig*> readers() const;
};

// As in the file: "auto".
std::string_view to_string(ReadMode mode);

// Each error is one line: "file:line:column: key: what is wrong, and what is allowed". unavailable:
// the file cannot be read. rejected: it is wrong.
Result<Config> load_config(const std::filesystem::path& file);
// The same for a text instead of the file's content.
Result<Config> parse_config(std::string_view text, const std::filesystem::path& file);

// The name in `known` that is most similar to `unknown`; empty if none is similar.
std::string_view nearest_name(std::string_view unknown, const std::vector<std::string_view>& known);

}  // namespace dovetail::config

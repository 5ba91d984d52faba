// The configuration file: which stores there are, and which relays run between them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/keys/value.h"
#include "config/schemes.h"
#include "core/message/message.h"
#include "core/operations.h"
#include "core/relay/read_mode.h"
#include "core/relay/relay.h"
#include "dovetail/result.h"
#include "gateway/options.h"

namespace dovetail::config {

// A table that exists already and that a relay serves as it is. The words are those of the file;
// what they mean is for the store's database to say.
struct TableConfig {
  std::string where;     // file:line:column and key, for what is found later
  std::string preset{};  // empty: everything is mapped by hand
  std::string name{};    // empty: that of the preset
  // What else was written, by its key: names of columns and what stands in for them, conditions and
  // assignments, and the columns that become headers of their own, by header.
  std::map<std::string, std::string, std::less<>> texts{};
  std::map<std::string, std::vector<std::string>, std::less<>> lists{};
  std::map<std::string, std::string, std::less<>> header_columns{};
  std::optional<bool> delete_when_done{};
  // By the relay's mode, slot and publication.
  bool from_log = false;
  std::string slot{};
  std::string publication{};
};

// How a broker is reached, and how messages look there.
struct BrokerConfig {
  struct Host {
    std::string name;        // or a number; that of IPv6 without its brackets
    std::uint16_t port = 0;  // 0: the broker's usual one
  };
  std::string url{};          // as written: without user and password, which must not stand in it
  bool tls = false;           // by the scheme: kafka+tls, amqps, nats+tls, rediss, https
  std::vector<Host> hosts{};  // of the url; several for Kafka and NATS only
  std::string path{};         // of the url, behind the host's "/": virtual host, database, path
  std::string user{};
  std::string password{};  // read from password_env or password_file when it is needed; never shown
  // Relative to the configuration file.
  std::filesystem::path ca_file{};    // empty: what the system trusts
  std::filesystem::path cert_file{};  // of the client; with key_file
  std::filesystem::path key_file{};
  MessageOptions message{};  // format, source, key, partition, headers
  ForeignNames foreign{};    // id_header, type_header, aggregate_type_header, aggregate_id_header
  std::vector<std::string> read{};  // topics, queues, subjects or streams, where it is a source
  std::string group{};  // of consumers, where it is a source; that of its relay, if none is written
  // [store.NAME.settings]: what only this broker's adapter understands, which declares the keys.
  Value settings{Value::Table{}};
  std::filesystem::path file{};  // the configuration file, for errors and for settings with paths
};

struct StoreConfig {
  std::string name;
  StoreScheme scheme = StoreScheme::sqlite;
  std::string where{};           // file:line:column and key of the url, for what is found later
  std::filesystem::path path{};  // of a "sqlite:" url, relative to the configuration file
  // Of a "postgres:" url, as libpq takes it. Never shown to anybody: what was written may hold a
  // secret by mistake, and a password may have been added.
  std::string conninfo{};
  // Of "replication_url": the same past a pooler, to stream the log; empty: as above.
  std::string replication_conninfo{};
  std::string replication_where{};        // file:line:column and key
  std::string password_env{};             // the variable that holds the password
  std::filesystem::path password_file{};  // or the file, relative to the configuration file
  std::string shown{};                    // the place as people and logs may see it
  std::string unusable{};  // why it cannot be used now: a secret is missing; empty: it can be used
  std::size_t payload_bytes_max = EventLimits{}.payload_bytes_max;  // 0, of a broker: its own limit
  std::vector<std::string> topics;  // that its mailbox accepts; empty: every topic
  std::map<std::string, TableConfig, std::less<>> tables{};  // by the relay that serves it
  BrokerConfig broker{};                                     // where it is one

  const StoreType& type() const { return type_of(scheme); }
  bool is_broker() const { return type().is_broker; }
};

struct RelayConfig {
  std::string name;  // also the name of its progress and its lease
  std::string
      from;        // a store: its outbox is read, the table that it has for this relay, or a broker
  std::string to;  // a store: its mailbox is filled, or a broker
  std::uint32_t lanes = 1;  // of a PostgreSQL store; at the first start, then what was chosen holds
  std::string topic = "{aggregate_type}.events";  // empty: as the source gave it
  Duration lease = std::chrono::seconds(10);
  // Of a PostgreSQL store: through the server's log where it can and where that is quicker (auto),
  // through a slot of the log that stays (wal), or by looking at the table (poll).
  ReadMode mode = ReadMode::automatic;
  std::size_t retained_wal_max = std::size_t{1} << 30;  // the slot is given up beyond it
  // Those that another program used for a table of its own; empty: made by dovetail.
  std::string slot{};
  std::string publication{};
  RelayOptions options;
};

// What a consumer does with an event.
struct HandlerConfig {
  enum class Kind : std::uint8_t {
    sql,      // a function of the consumer's database, inside its transaction
    queue,    // a row in dovetail.queue, inside its transaction; a service takes it from there
    http,     // a request to an endpoint, outside the transaction: at least once
    command,  // a program, likewise
  };
  std::string where{};  // file:line:column, for what is found later
  std::string name{};   // empty: the consumer's only one
  Kind kind = Kind::sql;
  std::vector<std::string> types{};             // of events: "order.placed", "order.*"; empty: all
  std::string function{};                       // sql: its name, perhaps with its schema
  bool batch = false;                           // sql: it takes dovetail.event[]
  std::string store{};                          // http: a store with an http url
  std::vector<std::string> command{};           // the program and its arguments
  Duration timeout = std::chrono::seconds(30);  // of one run of the command
  std::vector<std::string> environment{};       // command: variables of ours that it gets

  // Its effect is not in the consumer's transaction.
  bool is_external() const { return kind == Kind::http || kind == Kind::command; }
};

struct ConsumerConfig {
  // `to` is the database that holds the inbox; `from` the store that is read. `relay.lanes` is how
  // many connections share the work along keys.
  RelayConfig relay = small_batches();
  SourceKind source = SourceKind::outbox;  // that is read
  std::vector<std::string> topics{};       // only these; empty: all
  bool version_guard = false;
  Duration claim = std::chrono::seconds(60);  // how long a call outside may take before another may
  std::vector<HandlerConfig> handlers{};

 private:
  // A batch is one transaction of the inbox.
  static RelayConfig small_batches() {
    RelayConfig relay;
    relay.options.batch_events_max = 500;
    return relay;
  }
};

// [gateway]: runs in front of an HTTP service and applies requests with an idempotency key once.
struct GatewayConfig {
  http::GatewayOptions options{};
  std::string store{};  // the database that keeps the answers
  Duration drain_timeout = std::chrono::seconds(30);
};

struct RetentionConfig {
  std::optional<Duration> sent;   // events in an outbox or a mailbox that every reader has settled
  std::optional<Duration> inbox;  // what consumers remember to recognise duplicates
  Duration every = std::chrono::minutes(10);  // how often the daemon prunes

  bool wanted() const { return sent.has_value() || inbox.has_value(); }
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
  RetentionConfig retention;
  LogConfig log;

  const StoreConfig* find_store(std::string_view name) const;
  // By its name, or that of one of its handlers: "stock.mail".
  const ConsumerConfig* find_consumer(std::string_view name) const;
  // All relays, those of consumers too.
  std::vector<const RelayConfig*> readers() const;
};

// As the file says it: "auto".
std::string_view to_string(ReadMode mode);

// Every error is one line, "file:line:column: key: what is wrong, and what is allowed".
// Errc::unavailable when the file cannot be read, Errc::rejected when it is wrong.
Result<Config> load_config(const std::filesystem::path& file);
// The same for text that stands in for the file.
Result<Config> parse_config(std::string_view text, const std::filesystem::path& file);

// The name among `known` that is most like `unknown`; empty when none is near.
std::string_view nearest_name(std::string_view unknown, const std::vector<std::string_view>& known);

}  // namespace dovetail::config

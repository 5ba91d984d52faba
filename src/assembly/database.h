// A database, whichever it is: what commands and relays ask of it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "assembly/wiring.h"
#include "config/config.h"
#include "core/inbox/claims.h"
#include "core/inbox/request.h"
#include "core/operations.h"
#include "core/relay/origin_source.h"
#include "core/relay/relay.h"
#include "core/relay/sink.h"
#include "dovetail/event.h"
#include "dovetail/result.h"

namespace dovetail::assembly {

// A relay reads a PostgreSQL store in lanes; its own numbers are the sums over them.
struct LaneStatus {
  std::uint32_t lane = 0;
  std::uint64_t pending = 0;
  std::string owner;
  std::int64_t epoch = 0;
  Duration lease_left{0};
  std::optional<SaidState> said{};
};
// How a PostgreSQL outbox is read: through the server's log, or as a table.
struct Reading {
  bool streams = false;
  WallTime since{};
  std::string why{};
  std::string slot{};              // of the log; empty: none
  std::uint64_t retained_wal = 0;  // bytes that the server keeps for it
};
struct RelayStatus : dovetail::RelayStatus {
  std::vector<LaneStatus> lanes{};   // empty: it is read as one
  std::string table{};               // that it serves as it is; empty: it reads the stream
  std::optional<Reading> reading{};  // where there is a choice
};
struct StoreStatus {
  std::vector<RelayStatus> relays{};
  std::vector<ConsumerStatus> consumers{};
  std::vector<QueueStatus> queues{};
  std::uint64_t outbox_rows = 0;
  bool are_rows_estimated = false;  // of outbox and inbox, from the server's statistics
  std::uint64_t mailbox_rows = 0;
  std::uint64_t inbox_rows = 0;
  std::uint64_t file_bytes = 0;
  std::uint64_t wal_bytes = 0;
  std::uint64_t partitions = 0;
  std::int64_t schema_version = 0;
  std::string server_version{};  // empty: there is no server
  bool standby = false;          // takes no writes, and shows commits in another order
  std::uint64_t log_end = 0;     // where the server writes its log; 0: it does not
  std::optional<DelayedStatus> delayed{};
};

struct Retention {
  config::RetentionConfig keep;
  std::size_t rows_max = 1'000'000;  // in one call
};

// A store of the config file, as commands and relays use it: one class for each kind of database.
// Each call opens the database, works and closes it. What a database does not have, it refuses or
// leaves out, as a broker does with nearly everything. The config must outlive it.
class Database {
 public:
  explicit Database(const config::StoreConfig& store) : store_(store) {}
  virtual ~Database() = default;
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // Makes or migrates the tables, and the roles if wanted. True: there were none before.
  virtual Result<bool> create(bool with_roles);
  virtual Result<StoreStatus> status();
  // `config`: all of it, for what other stores and relays have to do with this one.
  virtual Result<std::vector<Finding>> examine(const config::Config& config) = 0;
  virtual Result<PruneReport> prune(const Retention& retention);

  // Events. Publishing has a transaction of its own.
  virtual Result<EventId> publish(const NewEvent& event, const EventLimits& limits,
                                  std::optional<WallTime> deliver_at);
  virtual Result<std::vector<EventRow>> list_events(const EventFilter& filter);
  virtual Result<std::string> payload_of(const EventId& id);
  virtual Status cancel(const EventId& id, const std::string& reason);
  // What operators did to an event, or to a relay; the newest first.
  virtual Result<std::vector<AuditRow>> list_audit(const std::string& subject);

  // Parked events.
  virtual Result<std::vector<ParkedRow>> list_parked(const ParkedFilter& filter);
  virtual Result<std::uint64_t> replay(const std::string& reader, const EventId& id);
  virtual Status discard(const std::string& reader, const EventId& id, const std::string& reason);

  // Relays. One that reads the outbox, the mailbox, or a table of its own.
  virtual std::unique_ptr<Lane> make_lane(LanePlan&& plan, Clock& clock);
  // One that fills the mailbox.
  virtual std::unique_ptr<Sink> make_mailbox(Clock& clock);
  // Where a relay that reads a broker keeps what it must remember.
  virtual std::unique_ptr<OriginStore> make_origin_store(const config::RelayConfig& relay,
                                                         const std::string& target, Clock& clock);
  // Lets a relay go on with another target; returns the one before.
  virtual Result<std::string> retarget(const std::string& relay, const std::string& target,
                                       const std::string& reason);
  // The store in words that stay the same as long as the place does, beside the database that a
  // relay keeps its state in.
  virtual std::string place(const config::StoreConfig& home) const = 0;

  // Consumers. The handlers inside the transaction as one sink, with a connection of its own: that
  // of `lane`.
  virtual Result<std::shared_ptr<Sink>> make_inbox(const config::ConsumerConfig& consumer,
                                                   std::uint32_t lane);
  // Of one handler outside the transaction, by the name of its inbox rows.
  virtual std::unique_ptr<ClaimStore> make_claims(const std::string& name, Clock& clock);
  // Whether the database has what these handlers need. rejected: the text begins with the place in
  // the config file. unavailable: it does not answer.
  virtual Status check_handlers(const config::ConsumerConfig& consumer);

  // What an operator decides about an inbox. Lets an event be applied whatever its age; how many
  // handlers had not.
  virtual Result<std::uint64_t> apply_event(const std::string& consumer, const EventId& id,
                                            const std::string& reason);
  // Repairs an inbox that a wrong clock has made forget too much; returns the time before.
  virtual Result<WallTime> remember_since(WallTime since, const std::string& reason);
  // Lets an event be applied once more; how many handlers had applied it.
  virtual Result<std::uint64_t> forget_event(const std::string& consumer, const EventId& id,
                                             const std::string& reason);
  // Has the outbox give an event to a reader again. False: this store cannot.
  virtual Result<bool> deliver_again(const std::string& reader, const EventId& id,
                                     const std::string& reason);

  // HTTP requests. `limit`: how long a server may take to answer.
  virtual std::unique_ptr<RequestStore> make_request_store(Duration limit);
  virtual Result<std::vector<RequestInfo>> list_requests(const RequestFilter& filter);
  // False: there is none, or it runs.
  virtual Result<bool> forget_request(const RequestKey& request, std::string_view reason);
  // Deletes what has expired, the oldest first, and returns how many.
  virtual Result<std::uint64_t> prune_requests(std::size_t rows_max);

 protected:
  const config::StoreConfig& store_;
};

// A kind of store: a new database is a class and one row in databases.cc.
struct DatabaseKind {
  config::StoreScheme scheme;
  // Checks the settings that only this database understands, and reads secrets. rejected: they are
  // wrong; the text begins with the place in the config file. A secret that is missing makes only
  // this store unusable (`store.unusable`): commands that do not need it go on.
  Status (*prepare)(config::StoreConfig& store);
  std::unique_ptr<Database> (*open)(const config::StoreConfig& store);
  // The migration, for those who apply it by hand. Null: they cannot.
  std::string (*migration_sql)(bool with_roles);
};

extern const DatabaseKind kSqlite;
extern const DatabaseKind kPostgres;

// What DatabaseKind::prepare does, whatever kind of store it is.
Status prepare_store(config::StoreConfig& store);
// REQUIRES: the store was prepared.
std::unique_ptr<Database> database_of(const config::StoreConfig& store);
// A broker, where a store is asked for.
Status prepare_broker(config::StoreConfig& store);
std::unique_ptr<Database> open_broker(const config::StoreConfig& store);
// Its adapter is not in this binary; the text says how to build it with it.
Error built_without(const config::StoreConfig& store);

// Where the progress and the parked events of a relay are: in the database that it reads, or, when
// it reads a broker, in that which it fills.
const config::StoreConfig& home_of(const config::RelayConfig& relay, const config::Config& config);

// What has no limit is kept for a thousand years.
inline constexpr Duration kForever = std::chrono::hours(24 * 365'000);

// Of the database whose owner may want to apply it by hand. rejected: none is in this binary.
Result<std::string> migration_sql(bool with_roles);

}  // namespace dovetail::assembly

// What the subcommands ask of a store, whatever database it is in.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "assembly/wiring.h"
#include "config/config.h"
#include "core/operations.h"
#include "core/relay/relay.h"
#include "dovetail/event.h"
#include "dovetail/result.h"

namespace dovetail::app {

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
struct ReaderStatus : dovetail::ReaderStatus {
  std::vector<LaneStatus> lanes{};   // empty: it is read as one
  std::string table{};               // that it serves as it is; empty: it reads the stream
  std::optional<Reading> reading{};  // where there is a choice
};
struct StoreStatus {
  std::vector<ReaderStatus> readers{};
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

// How one kind of store does it. Each call opens the store, works and closes it.
struct StoreKind {
  bool has_mailbox;
  bool has_roles;
  bool needs_maintenance;  // also where nothing is ever deleted

  // Checks the settings that only this database understands, and reads secrets. rejected: they are
  // wrong; the text begins with the place in the config file. A secret that is missing makes only
  // this store unusable (`store.unusable`): commands that do not need it go on.
  Status (*prepare)(config::StoreConfig& store);
  // Makes or migrates the tables, and the roles if wanted. True: there were none before.
  Result<bool> (*create)(const config::StoreConfig& store, bool with_roles);
  Result<StoreStatus> (*status)(const config::StoreConfig& store);
  Result<std::vector<EventRow>> (*list_events)(const config::StoreConfig& store,
                                               const EventFilter& filter);
  Result<std::string> (*payload_of)(const config::StoreConfig& store, const EventId& id);
  Result<std::vector<ParkedRow>> (*list_parked)(const config::StoreConfig& store,
                                                const ParkedFilter& filter);
  // What operators did to an event, or to a relay; the newest first.
  Result<std::vector<AuditRow>> (*list_audit)(const config::StoreConfig& store,
                                              const std::string& subject);
  Result<std::uint64_t> (*replay)(const config::StoreConfig& store, const std::string& reader,
                                  const EventId& id);
  Status (*discard)(const config::StoreConfig& store, const std::string& reader, const EventId& id,
                    const std::string& reason);
  Result<PruneReport> (*prune)(const config::StoreConfig& store, const Retention& retention);
  // In a transaction of its own.
  Result<EventId> (*publish)(const config::StoreConfig& store, const NewEvent& event,
                             const EventLimits& limits);
  Result<std::vector<Finding>> (*examine)(const config::StoreConfig& store,
                                          const config::Config& config);
  // A relay that reads the store's outbox, its mailbox, or a table of its own. Null: see
  // broker_lane.h.
  std::unique_ptr<Lane> (*make_lane)(LanePlan plan, Clock& clock);
  // Where a relay that reads a broker keeps what it must remember. Null: not here.
  std::unique_ptr<OriginStore> (*make_origin_store)(const config::StoreConfig& store,
                                                    const config::RelayConfig& relay,
                                                    const std::string& target, Clock& clock);
  // Lets a relay go on with another target (target.h); returns the one before.
  Result<std::string> (*retarget)(const config::StoreConfig& store, const std::string& relay,
                                  const std::string& target, const std::string& reason);
  // Events that go out later. Null: not here.
  Result<EventId> (*publish_at)(const config::StoreConfig& store, const NewEvent& event,
                                WallTime deliver_at, const EventLimits& limits) = nullptr;
  Status (*cancel)(const config::StoreConfig& store, const EventId& id,
                   const std::string& reason) = nullptr;
};

extern const StoreKind kSqliteStores;
extern const StoreKind kPostgresStores;
extern const StoreKind kBrokerStores;

const StoreKind& kind_of(const config::StoreConfig& store);

// Where the progress and the parked events of a relay are: in the database that it reads, or, when
// it reads a broker, in that which it fills.
const config::StoreConfig& home_of(const config::RelayConfig& relay, const config::Config& config);

// What has no limit is kept for a thousand years.
inline constexpr Duration kForever = std::chrono::hours(24 * 365'000);

// The migration of a PostgreSQL database, for those who apply it by hand. rejected: this dovetail
// was built without PostgreSQL.
Result<std::string> migration_sql(bool with_roles);

}  // namespace dovetail::app

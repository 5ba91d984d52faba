// A database of any kind, as commands and relays use it.
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
#include "core/life/life.h"
#include "core/operations.h"
#include "core/reconcile/rows.h"
#include "core/relay/origin_source.h"
#include "core/relay/relay.h"
#include "core/relay/sink.h"
#include "core/steering.h"
#include "dovetail/event.h"
#include "dovetail/result.h"

namespace dovetail::assembly {

// A PostgreSQL store is read in lanes; the relay's own numbers are their sums.
struct LaneStatus {
  std::uint32_t lane = 0;
  std::uint64_t pending = 0;
  std::string owner;
  std::int64_t epoch = 0;
  Duration lease_left{0};
  std::optional<SaidState> said{};
};
// How a PostgreSQL outbox is read: through the WAL, or as a table.
struct Reading {
  bool streams = false;
  WallTime since{};
  std::string why{};
  std::string slot{};              // of the WAL; empty: none
  std::uint64_t retained_wal = 0;  // bytes of WAL that the server keeps for it
};
struct RelayStatus : dovetail::RelayStatus {
  std::vector<LaneStatus> lanes{};   // empty: not split into lanes
  std::string table{};               // the mapped table that it reads; empty: it reads the outbox
  WallTime lease_ended_at{};         // when its owner's lease ran out; 0: it did not, or not known
  std::optional<Reading> reading{};  // if there is a choice
};
struct StoreStatus {
  std::vector<RelayStatus> relays{};
  std::vector<ConsumerStatus> consumers{};
  std::vector<QueueStatus> queues{};
  std::uint64_t outbox_rows = 0;
  bool are_rows_estimated = false;  // of outbox, mailbox and inbox: too many to count
  std::uint64_t mailbox_rows = 0;
  std::uint64_t inbox_rows = 0;
  std::uint64_t file_bytes = 0;
  std::uint64_t wal_bytes = 0;
  std::uint64_t partitions = 0;
  std::int64_t schema_version = 0;
  std::string server_version{};  // empty: there is no server
  bool standby = false;          // takes no writes, and shows commits in another order
  std::uint64_t wal_end = 0;     // where the server writes its WAL; 0: no WAL
  // What is left on the disk of a file, if it is too little; empty: enough, or not known.
  std::optional<std::uint64_t> room_bytes{};
  Duration clock_ahead{0};  // of the database's clock before ours; exact to the length of a call
  std::optional<DelayedStatus> delayed{};
};

// What makes a server keep its WAL until a relay has read it.
struct WalSlot {
  std::string name{};
  std::string database{};
  std::string relay{};   // that reads through it, or did last; empty: none that is known here
  bool is_here = false;  // in the database that was asked; a slot belongs to one
  bool ends_by_itself = false;  // with its connection
  std::int32_t read_by = 0;     // the server's process that reads it; 0: none
  std::string wal_status{};     // as the server says it
  std::string invalidation{};   // why it is lost, if the server tells
  std::int64_t retained_bytes = 0;
  std::int64_t safe_bytes = -1;  // how much can be written before it is lost; -1: no limit
};

struct Retention {
  config::RetentionConfig keep;
  std::size_t rows_max = 1'000'000;  // per call
};

// A store of the config file; each kind of database has its own class. Each call opens the
// database, works and closes it. It refuses or leaves out what the database does not have; a broker
// has almost nothing of this. The config must outlive it.
class Database {
 public:
  explicit Database(const config::StoreConfig& store) : store_(store) {}
  virtual ~Database() = default;
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // Creates or migrates the tables, and the roles if wanted. True: there were no tables before.
  virtual Result<bool> create(bool with_roles);
  virtual Result<StoreStatus> status();
  // `config`: the whole file, for checks that involve other stores and relays.
  virtual Result<std::vector<Finding>> examine(const config::Config& config) = 0;
  virtual Result<PruneReport> prune(const Retention& retention);

  // Events. Publishing has its own transaction.
  virtual Result<EventId> publish(const NewEvent& event, const EventLimits& limits,
                                  std::optional<WallTime> deliver_at);
  virtual Result<std::vector<EventRow>> list_events(const EventFilter& filter);
  // Empty: the store does not have it.
  virtual Result<std::optional<std::string>> payload_of(const EventId& id);
  virtual Status cancel(const EventId& id, const std::string& reason);
  // Outbox or mailbox; not mapped tables.
  virtual Result<FoundEvents> search_events(const EventSearch& search);
  // Actions of operators, newest first.
  virtual Result<std::vector<AuditRow>> list_audit(const AuditFilter& filter);
  // Records that somebody sees the payload of an event.
  virtual Status note_reveal(const EventId& id, const std::string& reason);
  // Records that the console refused somebody (`reason` begins with who) a request, how many times.
  // Only the last ones are kept.
  virtual Status note_refusal(const std::string& request, std::uint64_t times,
                              const std::string& reason);
  // Publishes a changed copy of an event, records that, and discards the event for every relay that
  // parked it: all or nothing. `copy` has its id and the header dovetail-replaces. Returns the
  // number of relays. rejected: the event waits behind another one, or no reason is given.
  virtual Result<std::uint64_t> publish_edited(const EventId& replaced, const NewEvent& copy,
                                               const EventLimits& limits,
                                               const std::string& reason);

  // Parked events.
  virtual Result<std::vector<ParkedRow>> list_parked(const ParkedFilter& filter);
  virtual Result<std::uint64_t> replay(const std::string& reader, const EventId& id,
                                       const std::string& reason);
  virtual Status discard(const std::string& reader, const EventId& id, const std::string& reason);

  // Relays. One that reads the outbox, the mailbox or its own table.
  virtual std::unique_ptr<Lane> make_lane(LanePlan&& plan, Clock& clock);
  // One that fills the mailbox.
  virtual std::unique_ptr<Sink> make_mailbox(Clock& clock);
  // Where a relay that reads a broker keeps its state.
  virtual std::unique_ptr<OriginStore> make_origin_store(const config::RelayConfig& relay,
                                                         const std::string& target, Clock& clock);
  // Pauses (paused), drains (draining) or resumes (none) a relay or consumer, in all of its
  // processes.
  Result<ActionReport> hold_relay(const std::string& relay, Hold wanted,
                                  const ActionRequest& request);
  // Moves a relay. While its processes run, it is paused for that.
  Result<ActionReport> seek_relay(const std::string& relay, const SeekTo& to,
                                  const ActionRequest& request);
  // Both need that no process runs it.
  Result<ActionReport> rename_relay(const std::string& relay, const std::string& new_name,
                                    const ActionRequest& request);
  Result<ActionReport> forget_relay(const std::string& relay, const ActionRequest& request);
  // Lets a relay continue with another target; returns the old one.
  virtual Result<std::string> retarget(const std::string& relay, const std::string& target,
                                       const std::string& reason);
  // A lasting name of the store's place, as another database keeps it with a relay's state in
  // `home`.
  virtual std::string place(const config::StoreConfig& home) const = 0;

  // Consumers. The handlers inside the transaction as one sink with its own connection: that of
  // `lane`.
  virtual Result<std::shared_ptr<Sink>> make_inbox(const config::ConsumerConfig& consumer,
                                                   std::uint32_t lane);
  // The claims of one external handler, by the name of its inbox rows.
  virtual std::unique_ptr<ClaimStore> make_claims(const std::string& name, Clock& clock);
  // Whether the database has what these handlers need. rejected: the text begins with the place in
  // the config file. unavailable: it does not answer.
  virtual Status check_handlers(const config::ConsumerConfig& consumer);

  // Decisions of operators about an inbox. Lets an event be applied whatever its age; returns how
  // many handlers had not applied it.
  virtual Result<std::uint64_t> apply_event(const std::string& consumer, const EventId& id,
                                            const std::string& reason);
  // Repairs an inbox that a wrong clock made forget too much; returns the old time.
  virtual Result<WallTime> remember_since(WallTime since, const std::string& reason);
  // Lets an event be applied again; returns how many handlers had applied it.
  virtual Result<std::uint64_t> forget_event(const std::string& consumer, const EventId& id,
                                             const std::string& reason);
  // Makes the outbox give an event to a reader again. False: this store cannot.
  virtual Result<bool> deliver_again(const std::string& reader, const EventId& id,
                                     const std::string& reason);

  // The life of an event. Which lane of the relay it falls into, and what the database says of
  // that. Leaves `relay` as it is if the relay never ran here. `row`: the event in the outbox.
  virtual Status fill_relay(const EventRow& row, life::RelayFacts& relay);
  // What the row of an application's own table says of its times. `place` has the row.
  virtual Status fill_times(life::OutboxFacts& place);
  // Handlers of consumers that applied the event, or try to; without the store.
  virtual Result<std::vector<life::HandlerFacts>> list_handlers(const EventId& id);

  // The two sides of a comparison, see core/reconcile/rows.h. `handlers`: the names of inbox rows;
  // empty: all that the database knows.
  virtual Result<std::unique_ptr<reconcile::OutboxScan>> scan_outbox(const std::string& relay,
                                                                     WallTime from, WallTime to);
  virtual Result<std::unique_ptr<reconcile::ReceiverScan>> scan_inbox(
      const std::string& consumer, const std::vector<std::string>& handlers);

  // Slots, in databases that have them.
  virtual bool has_slots() const { return false; }
  virtual Result<std::vector<WalSlot>> list_slots();
  // rejected: no such slot of ours, it ends by itself, or a relay still needs it and `force` is not
  // set. unavailable: it is in use, or nobody can be asked.
  virtual Status drop_slot(const std::string& name, bool force);

  // HTTP requests. Whether a gateway can keep them here: the tables are there, and so are the
  // rights.
  virtual Status check_requests();
  // `limit`: the longest wait for the server's answer.
  virtual std::unique_ptr<RequestStore> make_request_store(Duration limit);
  virtual Result<std::vector<RequestInfo>> list_requests(const RequestFilter& filter);
  // False: it does not exist, or it is running.
  virtual Result<bool> forget_request(const RequestKey& request, std::string_view reason);
  // Deletes expired requests, the oldest first; returns how many.
  virtual Result<std::uint64_t> prune_requests(std::size_t rows_max);

 protected:
  // rejected: no such relay has run here.
  Result<RelayStatus> find_relay(const std::string& name);
  // Records the order, and who gave it, in the audit.
  virtual Status write_hold(const std::string& relay, Hold hold, const std::string& reason);
  // unavailable: a process still has it.
  Status wait_until_free(const std::string& relay, Duration wait_max);
  // Whether a process has a lane of it.
  virtual Result<bool> has_owner(const std::string& relay);
  // The relay gets the order `after`. A dry run only counts.
  virtual Result<SeekCounts> write_seek(const std::string& relay, const SeekTo& to,
                                        const std::string& reason, Hold after, bool dry_run);
  // Both return what is left to do by hand, or nothing.
  virtual Result<std::string> write_rename(const std::string& relay, const std::string& new_name,
                                           const std::string& reason);
  virtual Result<std::string> write_forget(const std::string& relay, const std::string& reason);

  const config::StoreConfig& store_;
};

// A kind of store: a new database is a class and a row in databases.cc.
struct DatabaseKind {
  config::StoreScheme scheme;
  // Checks the settings that only this database understands, and reads secrets. rejected: a setting
  // is wrong; the text begins with its place in the config file. A missing secret only makes this
  // store unusable (`store.unusable`): commands that do not need it continue.
  Status (*prepare)(config::StoreConfig& store);
  std::unique_ptr<Database> (*open)(const config::StoreConfig& store);
  // The migration as SQL, to apply by hand. Null: not possible.
  std::string (*migration_sql)(bool with_roles);
};

extern const DatabaseKind kSqlite;
extern const DatabaseKind kPostgres;

// Calls DatabaseKind::prepare for a store of any kind.
Status prepare_store(config::StoreConfig& store);
// REQUIRES: prepare_store() succeeded.
std::unique_ptr<Database> database_of(const config::StoreConfig& store);
// The same for a broker.
Status prepare_broker(config::StoreConfig& store);
std::unique_ptr<Database> open_broker(const config::StoreConfig& store);
// The adapter is not in this binary; the text says how to build with it.
Error built_without(const config::StoreConfig& store);

// Where a relay's progress and parked events are: in the database that it reads, or, if it reads a
// broker, in the database that it fills.
const config::StoreConfig& home_of(const config::RelayConfig& relay, const config::Config& config);

// "Without limit" is a thousand years.
inline constexpr Duration kForever = std::chrono::hours(24 * 365'000);

// For databases with migrations by hand. rejected: this binary has no such database.
Result<std::string> migration_sql(bool with_roles);

}  // namespace dovetail::assembly

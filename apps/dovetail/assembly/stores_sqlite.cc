#include <filesystem>
#include <optional>
#include <utility>

#include "assembly/stores.h"
#include "config/units.h"
#include "dovetail/sqlite.h"
#include "host/host.h"
#include "sqlite/connection/database.h"
#include "sqlite/inbox/origin_store.h"
#include "sqlite/lane/lease.h"
#include "sqlite/lane/parking.h"
#include "sqlite/lane/relay_state.h"
#include "sqlite/operate/admin.h"
#include "sqlite/outbox/source.h"

namespace dovetail::app {
namespace {

using config::StoreConfig;

Status prepare(StoreConfig&) { return {}; }

Result<bool> create(const StoreConfig& store, bool) {
  std::error_code ignored;
  const bool existed = std::filesystem::exists(store.path, ignored);
  DOVETAIL_TRY(sqlite::create_store(store.path.string()));
  return !existed;
}

Result<StoreStatus> status(const StoreConfig& store) {
  auto found = sqlite::status(store.path.string(), system_clock());
  if (!found) return fail(found.error());
  StoreStatus result;
  for (dovetail::ReaderStatus& reader : found->readers)
    result.readers.push_back({std::move(reader)});
  result.consumers = std::move(found->consumers);
  result.outbox_rows = found->outbox_rows;
  result.mailbox_rows = found->mailbox_rows;
  result.inbox_rows = found->inbox_rows;
  result.file_bytes = found->file_bytes;
  result.wal_bytes = found->wal_bytes;
  result.schema_version = found->schema_version;
  return result;
}

Result<std::vector<EventRow>> list_events(const StoreConfig& store, const EventFilter& filter) {
  return sqlite::list_events(store.path.string(), filter);
}

Result<std::string> payload_of(const StoreConfig& store, const EventId& id) {
  return sqlite::payload_of(store.path.string(), id);
}

Result<std::vector<ParkedRow>> list_parked(const StoreConfig& store, const ParkedFilter& filter) {
  return sqlite::list_parked(store.path.string(), filter);
}

Result<std::vector<AuditRow>> list_audit(const StoreConfig& store, const std::string& subject) {
  return sqlite::list_audit(store.path.string(), 100, subject);
}

Result<std::uint64_t> replay(const StoreConfig& store, const std::string& reader,
                             const EventId& id) {
  return sqlite::replay_event(store.path.string(), reader, id, system_clock());
}

Status discard(const StoreConfig& store, const std::string& reader, const EventId& id,
               const std::string& reason) {
  return sqlite::discard(store.path.string(), reader, id, reason, system_clock());
}

Result<PruneReport> prune(const StoreConfig& store, const Retention& retention) {
  sqlite::PruneOptions options;
  options.events_older_than = retention.keep.sent.value_or(kForever);
  options.inbox_older_than = retention.keep.inbox.value_or(kForever);
  options.parked_older_than = retention.keep.sent.value_or(kForever);
  options.rows_max = retention.rows_max;
  return sqlite::prune(store.path.string(), options, system_clock());
}

Result<EventId> publish(const StoreConfig& store, const NewEvent& event,
                        const EventLimits& limits) {
  auto database = sqlite::Database::open(store.path.string());
  if (!database) return fail(database.error());
  DOVETAIL_TRY(sqlite::check_schema(database->get()));
  DOVETAIL_TRY(sqlite::prepare_connection(database->get()));
  auto transaction = sqlite::Transaction::begin(database->get(), "publishing an event");
  if (!transaction) return fail(transaction.error());
  auto id = sqlite::publish(database->get(), event, limits);
  if (!id) return id;
  DOVETAIL_TRY(transaction->commit("publishing an event"));
  return id;
}

// The file, its log and its index hold payloads.
void examine_mode(const StoreConfig& store, std::vector<Finding>& findings) {
  using std::filesystem::perms;
  std::string open_files;
  for (const char* end : {"", "-wal", "-shm"}) {
    std::error_code missing;
    const std::string file = store.path.string() + end;
    const perms mode = std::filesystem::status(file, missing).permissions();
    const bool is_open = (mode & (perms::group_read | perms::others_read)) != perms::none;
    if (!missing && is_open) open_files += (open_files.empty() ? "" : ", ") + file;
  }
  if (open_files.empty()) return;
  findings.push_back({Severity::warning, "file-mode",
                      "payloads can be read by others than the owner: " + open_files,
                      "run 'chmod 600' on it, unless a service of another user shares the file"});
}

// A clock was wrong when rows were deleted.
Status examine_line(sqlite::Database& database, std::vector<Finding>& findings) {
  auto ahead = database.prepare(
      "SELECT name, forgotten_until FROM dovetail_consumer WHERE forgotten_until > ?1 ORDER BY "
      "name");
  if (!ahead) return fail(ahead.error());
  ahead->bind(1, sqlite::to_stored(system_clock().wall() + std::chrono::hours(1)));
  while (true) {
    const auto row = ahead->step();
    if (!row) return fail(row.error());
    if (!*row) return {};
    findings.push_back(
        {Severity::error, "inbox-forgets-new-events",
         "the consumer \"" + std::string(ahead->bytes(0)) + "\" parks every event up to " +
             config::iso_time(sqlite::from_stored(ahead->integer(1))) +
             " as perhaps forgotten, which is in the future: a clock was wrong when old rows were "
             "deleted",
         "find out when that was, and run 'dovetail inbox remember --since' with that time"});
  }
}

Result<std::vector<Finding>> examine(const StoreConfig& store, const config::Config&) {
  constexpr std::uint64_t kWalBytesMax = 256U << 20;
  const auto has_tables = sqlite::has_tables(store.path.string());
  if (!has_tables) return fail(has_tables.error());
  if (!*has_tables) {
    return std::vector<Finding>{{Severity::warning, "no-tables",
                                 "there are no tables of dovetail yet",
                                 "run 'dovetail init', which makes them"}};
  }
  const auto found = status(store);
  if (!found) return fail(found.error());
  auto database = sqlite::Database::open(store.path.string());
  if (!database) return fail(database.error());
  auto mode = database->prepare("PRAGMA journal_mode");
  if (!mode) return fail(mode.error());
  const auto row = mode->step();
  if (!row) return fail(row.error());
  std::vector<Finding> findings;
  examine_mode(store, findings);
  if (mode->bytes(0) != "wal") {
    findings.push_back({Severity::error, "journal-mode",
                        "the journal mode is " + std::string(mode->bytes(0)) +
                            ", so the relay and the service lock each other out",
                        "run 'dovetail init', which sets it to wal, while nobody uses the file"});
  }
  if (found->wal_bytes > kWalBytesMax) {
    findings.push_back(
        {Severity::warning, "wal-size",
         "the write-ahead log has " + config::human_count(found->wal_bytes) + " bytes",
         "look for a process that keeps a read transaction open"});
  }
  DOVETAIL_TRY(examine_line(*database, findings));
  for (const ReaderStatus& reader : found->readers) {
    if (reader.parked != 0) {
      findings.push_back(
          {Severity::warning, "parked",
           config::human_count(reader.parked) + " events of " + reader.name +
               " are parked and wait for an operator; behind them, or for their next try, " +
               config::human_count(reader.waiting) + " wait",
           "look at them with 'dovetail parked list', then replay or discard them"});
    }
    if (reader.pending != 0 && reader.lease_left <= Duration::zero()) {
      findings.push_back({Severity::error, "relay-not-running",
                          config::human_count(reader.pending) + " events wait for " + reader.name +
                              ", which is not running",
                          "start it with 'dovetail run'"});
    }
  }
  return findings;
}

class SqliteLane final : public Lane {
 public:
  SqliteLane(LanePlan plan, Clock& clock)
      : reader_{.path = plan.from.path.string(),
                .name = plan.relay.name,
                .stream = plan.stream,
                .target = plan.target},
        topics_(std::move(plan.topics)),
        source_(reader_, clock),
        parking_(reader_, clock),
        lease_(reader_, clock, process_label(), boot_id(), plan.relay.lease),
        sink_(plan.make_sink(0)),
        recorder_(clock, sqlite::state_writer(reader_, clock)),
        relay_(RelayPorts{.source = source_,
                          .sink = *sink_,
                          .parking = parking_,
                          .lease = lease_,
                          .clock = clock,
                          .metrics = metrics_,
                          .notify = std::move(plan.notify),
                          .topics = topics_ ? &*topics_ : nullptr,
                          .report =
                              [this](const RelayState& state) {
                                recorder_.report(state, reader_.epoch);
                              }},
               options_of(plan.relay)) {}

  Status run(std::stop_token stop) override { return relay_.run(stop); }
  const RelayMetrics& metrics() const override { return metrics_; }

 private:
  sqlite::Reader reader_;
  std::optional<TopicTemplate> topics_;
  RelayMetrics metrics_;
  sqlite::SqliteSource source_;
  sqlite::SqliteParking parking_;
  sqlite::SqliteLease lease_;
  std::unique_ptr<Sink> sink_;
  StateRecorder recorder_;
  Relay relay_;
};

std::unique_ptr<Lane> make_sqlite_lane(LanePlan plan, Clock& clock) {
  return std::make_unique<SqliteLane>(std::move(plan), clock);
}

std::unique_ptr<OriginStore> make_sqlite_home(const StoreConfig& store,
                                              const config::RelayConfig& relay,
                                              const std::string& target, Clock& clock) {
  return std::make_unique<sqlite::SqliteOriginStore>(store.path.string(), relay.name, target,
                                                     relay.lease, clock);
}

Result<std::string> retarget(const StoreConfig& store, const std::string& relay,
                             const std::string& target, const std::string& reason) {
  return sqlite::retarget(store.path.string(), relay, target, reason, system_clock());
}

}  // namespace

const StoreKind kSqliteStores = {.has_mailbox = true,
                                 .has_roles = false,
                                 .needs_maintenance = false,
                                 .prepare = prepare,
                                 .create = create,
                                 .status = status,
                                 .list_events = list_events,
                                 .payload_of = payload_of,
                                 .list_parked = list_parked,
                                 .list_audit = list_audit,
                                 .replay = replay,
                                 .discard = discard,
                                 .prune = prune,
                                 .publish = publish,
                                 .examine = examine,
                                 .make_lane = make_sqlite_lane,
                                 .make_origin_store = make_sqlite_home,
                                 .retarget = retarget};

}  // namespace dovetail::app

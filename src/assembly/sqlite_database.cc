#include <filesystem>
#include <optional>
#include <utility>

#include "assembly/database.h"
#include "dovetail/sqlite.h"
#include "host/host.h"
#include "sqlite/connection/database.h"
#include "sqlite/inbox/mailbox.h"
#include "sqlite/inbox/origin_store.h"
#include "sqlite/lane/lease.h"
#include "sqlite/lane/parking.h"
#include "sqlite/lane/relay_state.h"
#include "sqlite/operate/admin.h"
#include "sqlite/operate/doctor.h"
#include "sqlite/operate/life.h"
#include "sqlite/operate/search.h"
#include "sqlite/outbox/source.h"
#include "sqlite/reconcile/inbox_scan.h"
#include "sqlite/reconcile/outbox_scan.h"
#include "sqlite/work/claims.h"
#include "sqlite/work/requests.h"

namespace dovetail::assembly {
namespace {

using config::StoreConfig;

class SqliteDatabase final : public Database {
 public:
  using Database::Database;

  Result<bool> create(bool with_roles) override;
  Result<StoreStatus> status() override;
  Result<std::vector<Finding>> examine(const config::Config& config) override;
  Result<PruneReport> prune(const Retention& retention) override;
  Result<EventId> publish(const NewEvent& event, const EventLimits& limits,
                          std::optional<WallTime> deliver_at) override;
  Result<std::vector<EventRow>> list_events(const EventFilter& filter) override;
  Result<std::optional<std::string>> payload_of(const EventId& id) override;
  Result<FoundEvents> search_events(const EventSearch& search) override {
    return sqlite::search_events(path(), search);
  }
  Result<std::vector<AuditRow>> list_audit(const AuditFilter& filter) override {
    return sqlite::list_audit(path(), filter);
  }
  Status note_reveal(const EventId& id, const std::string& reason) override {
    return sqlite::note_reveal(path(), id, reason, system_clock());
  }
  Status note_refusal(const std::string& request, std::uint64_t times,
                      const std::string& reason) override {
    return sqlite::note_refusal(path(), request, times, reason, system_clock());
  }
  Result<std::uint64_t> publish_edited(const EventId& replaced, const NewEvent& copy,
                                       const EventLimits& limits,
                                       const std::string& reason) override {
    return sqlite::publish_edited(path(), replaced, copy, limits, reason, system_clock());
  }
  Result<std::vector<ParkedRow>> list_parked(const ParkedFilter& filter) override;
  Result<std::uint64_t> replay(const std::string& reader, const EventId& id,
                               const std::string& reason) override {
    return sqlite::replay_event(path(), reader, id, system_clock(), reason);
  }
  Status discard(const std::string& reader, const EventId& id, const std::string& reason) override;
  std::unique_ptr<Lane> make_lane(LanePlan&& plan, Clock& clock) override;
  std::unique_ptr<Sink> make_mailbox(Clock& clock) override {
    return std::make_unique<sqlite::MailboxSink>(
        sqlite::MailboxOptions{
            .path = path(), .topics = store_.topics, .payload_bytes_max = store_.payload_bytes_max},
        clock);
  }
  std::unique_ptr<OriginStore> make_origin_store(const config::RelayConfig& relay,
                                                 const std::string& target, Clock& clock) override;
  Result<std::string> retarget(const std::string& relay, const std::string& target,
                               const std::string& reason) override;
  std::string place(const StoreConfig& home) const override;
  // Only a service can run handlers inside the transaction of its SQLite file.
  Result<std::shared_ptr<Sink>> make_inbox(const config::ConsumerConfig& consumer,
                                           std::uint32_t) override {
    return fail(Errc::rejected, "the consumer " + consumer.relay.name +
                                    " has a handler inside the transaction of a SQLite file, which "
                                    "only a service can have; check its handlers");
  }
  std::unique_ptr<ClaimStore> make_claims(const std::string& name, Clock& clock) override {
    return std::make_unique<sqlite::SqliteClaimStore>(path(), name, clock, boot_id());
  }
  Result<std::uint64_t> apply_event(const std::string& consumer, const EventId& id,
                                    const std::string& reason) override {
    return sqlite::apply_event(path(), consumer, id, reason, system_clock());
  }
  Result<WallTime> remember_since(WallTime since, const std::string& reason) override {
    return sqlite::remember_since(path(), since, reason, system_clock());
  }
  Result<std::uint64_t> forget_event(const std::string& consumer, const EventId&,
                                     const std::string&) override {
    return fail(Errc::rejected, "the inbox of \"" + consumer +
                                    "\" is in a SQLite file; only PostgreSQL keeps the reason that "
                                    "this needs");
  }
  Status fill_relay(const EventRow& row, life::RelayFacts& relay) override {
    return sqlite::fill_relay(path(), row, relay, system_clock());
  }
  Result<std::vector<life::HandlerFacts>> list_handlers(const EventId& id) override {
    return sqlite::list_handlers(path(), id, system_clock());
  }
  Result<std::unique_ptr<reconcile::OutboxScan>> scan_outbox(const std::string& relay,
                                                             WallTime from, WallTime to) override {
    return sqlite::scan_outbox(path(), relay, from, to, system_clock());
  }
  Result<std::unique_ptr<reconcile::ReceiverScan>> scan_inbox(
      const std::string& consumer, const std::vector<std::string>& handlers) override {
    return sqlite::scan_inbox(path(), consumer, handlers, system_clock());
  }
  std::unique_ptr<RequestStore> make_request_store(Duration) override {
    return std::make_unique<sqlite::SqliteRequestStore>(path(), system_clock(), boot_id());
  }
  Result<std::vector<RequestInfo>> list_requests(const RequestFilter& filter) override {
    return sqlite::list_requests(path(), filter, system_clock(), boot_id());
  }
  Result<bool> forget_request(const RequestKey& request, std::string_view reason) override {
    return sqlite::forget_request(path(), request, reason, system_clock(), boot_id());
  }
  Result<std::uint64_t> prune_requests(std::size_t rows_max) override {
    return sqlite::prune_requests(path(), rows_max, system_clock(), boot_id());
  }

 private:
  Status write_hold(const std::string& relay, Hold hold, const std::string& reason) override {
    return sqlite::write_hold(path(), relay, hold, reason, system_clock());
  }
  Result<bool> has_owner(const std::string& relay) override {
    return sqlite::has_owner(path(), relay, system_clock());
  }
  Result<SeekCounts> write_seek(const std::string& relay, const SeekTo& to,
                                const std::string& reason, Hold after, bool dry_run) override {
    return sqlite::write_seek(path(), relay, to, reason, after, dry_run, system_clock());
  }
  Result<std::string> write_rename(const std::string& relay, const std::string& new_name,
                                   const std::string& reason) override {
    DOVETAIL_TRY(sqlite::write_rename(path(), relay, new_name, reason, system_clock()));
    return std::string();
  }
  Result<std::string> write_forget(const std::string& relay, const std::string& reason) override {
    DOVETAIL_TRY(sqlite::write_forget(path(), relay, reason, system_clock()));
    return std::string();
  }
  std::string path() const { return store_.path.string(); }
};

Status prepare(StoreConfig&) { return {}; }

Result<bool> SqliteDatabase::create(bool) {
  std::error_code ignored;
  const bool existed = std::filesystem::exists(store_.path, ignored);
  DOVETAIL_TRY(sqlite::create_store(store_.path.string()));
  return !existed;
}

// SQLite needs some for its log, and to open a file.
constexpr std::uint64_t kRoomMin = std::uint64_t{64} << 10;

// Empty: enough, or not known.
std::optional<std::uint64_t> too_little_room(const std::filesystem::path& path) {
  std::error_code failed;
  const std::filesystem::space_info disk = std::filesystem::space(path, failed);
  if (failed || disk.available >= kRoomMin) return std::nullopt;
  return disk.available;
}

Result<StoreStatus> SqliteDatabase::status() {
  const std::optional<std::uint64_t> room = too_little_room(store_.path);
  auto found = sqlite::status(store_.path.string(), system_clock());
  if (!found && room)
    return fail(found.error().code, found.error().text + "; the disk is full: " +
                                        std::to_string(*room) + " bytes are free");
  if (!found) return fail(found.error());
  StoreStatus result;
  result.room_bytes = room;
  for (dovetail::RelayStatus& reader : found->relays) {
    const auto ended = found->leases_ended.find(reader.name);
    result.relays.push_back({std::move(reader)});
    if (ended != found->leases_ended.end()) result.relays.back().lease_ended_at = ended->second;
  }
  result.consumers = std::move(found->consumers);
  result.outbox_rows = found->outbox_rows;
  result.mailbox_rows = found->mailbox_rows;
  result.inbox_rows = found->inbox_rows;
  result.are_rows_estimated = found->are_rows_estimated;
  result.file_bytes = found->file_bytes;
  result.wal_bytes = found->wal_bytes;
  result.schema_version = found->schema_version;
  return result;
}

Result<std::vector<EventRow>> SqliteDatabase::list_events(const EventFilter& filter) {
  return sqlite::list_events(store_.path.string(), filter);
}

Result<std::optional<std::string>> SqliteDatabase::payload_of(const EventId& id) {
  return sqlite::payload_of(store_.path.string(), id);
}

Result<std::vector<ParkedRow>> SqliteDatabase::list_parked(const ParkedFilter& filter) {
  return sqlite::list_parked(store_.path.string(), filter);
}

Status SqliteDatabase::discard(const std::string& reader, const EventId& id,
                               const std::string& reason) {
  return sqlite::discard(store_.path.string(), reader, id, reason, system_clock());
}

Result<PruneReport> SqliteDatabase::prune(const Retention& retention) {
  sqlite::PruneOptions options;
  options.events_older_than = retention.keep.delivered.value_or(kForever);
  options.inbox_older_than = retention.keep.inbox.value_or(kForever);
  options.parked_older_than = retention.keep.delivered.value_or(kForever);
  options.rows_max = retention.rows_max;
  return sqlite::prune(store_.path.string(), options, system_clock());
}

Result<EventId> SqliteDatabase::publish(const NewEvent& event, const EventLimits& limits,
                                        std::optional<WallTime> deliver_at) {
  if (deliver_at)
    return fail(Errc::rejected, "SQLite delivers at once; leave the time out, or use PostgreSQL");
  auto database = sqlite::Database::open(store_.path.string());
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

Result<std::vector<Finding>> SqliteDatabase::examine(const config::Config&) {
  return sqlite::examine(path(), system_clock());
}

class SqliteLane final : public Lane {
 public:
  SqliteLane(LanePlan plan, Clock& clock)
      : relay_(plan.relay),
        reader_{.path = plan.from.path.string(),
                .name = plan.relay.name,
                .source = plan.source,
                .topics = std::move(plan.only_topics),
                .target = plan.target,
                .filter = plan.relay.options.filter.json(),
                .starts_now = plan.relay.starts_now},
        clock_(clock),
        topics_(std::move(plan.topics)),
        notify_(std::move(plan.notify)),
        source_(reader_, clock),
        parking_(reader_, clock),
        lease_(reader_, clock, process_label(), boot_id(), plan.relay.lease),
        sink_(plan.make_sink(0)),
        recorder_(clock, sqlite::state_writer(reader_, clock)) {}

  Status run(std::stop_token stop) override {
    Relay relay(
        RelayPorts{
            .source = source_,
            .sink = *sink_,
            .parking = parking_,
            .lease = lease_,
            .clock = clock_,
            .metrics = metrics_,
            .notify = notify_,
            .topics = topics_ ? &*topics_ : nullptr,
            .report = [this](const RelayState& state) { recorder_.report(state, reader_.epoch); }},
        options_of(relay_));
    return relay.run(std::move(stop));
  }
  const RelayMetrics& metrics() const override { return metrics_; }

 private:
  const config::RelayConfig& relay_;
  sqlite::Reader reader_;
  Clock& clock_;
  std::optional<TopicTemplate> topics_;
  std::function<void(const RelayNotice&)> notify_;
  RelayMetrics metrics_;
  sqlite::SqliteSource source_;
  sqlite::SqliteParking parking_;
  sqlite::SqliteLease lease_;
  std::unique_ptr<Sink> sink_;
  StateRecorder recorder_;
};

std::unique_ptr<Lane> SqliteDatabase::make_lane(LanePlan&& plan, Clock& clock) {
  return std::make_unique<SqliteLane>(std::move(plan), clock);
}

std::unique_ptr<OriginStore> SqliteDatabase::make_origin_store(const config::RelayConfig& relay,
                                                               const std::string& target,
                                                               Clock& clock) {
  return std::make_unique<sqlite::SqliteOriginStore>(store_.path.string(), relay.name, target,
                                                     relay.lease, clock);
}

Result<std::string> SqliteDatabase::retarget(const std::string& relay, const std::string& target,
                                             const std::string& reason) {
  return sqlite::retarget(store_.path.string(), relay, target, reason, system_clock());
}

// A relative path: two files that move together keep the same name for each other.
std::string SqliteDatabase::place(const StoreConfig& home) const {
  namespace fs = std::filesystem;
  std::error_code failed;
  const fs::path path = fs::weakly_canonical(store_.path, failed);
  if (failed) return "sqlite " + store_.path.string();
  if (home.scheme != config::StoreScheme::sqlite) return "sqlite " + path.string();
  const fs::path folder = fs::weakly_canonical(home.path, failed).parent_path();
  return "sqlite " + (failed ? path : path.lexically_relative(folder)).string();
}

std::unique_ptr<Database> open(const StoreConfig& store) {
  return std::make_unique<SqliteDatabase>(store);
}

}  // namespace

const DatabaseKind kSqlite = {.scheme = config::StoreScheme::sqlite,
                              .prepare = prepare,
                              .open = open,
                              .migration_sql = nullptr};

}  // namespace dovetail::assembly

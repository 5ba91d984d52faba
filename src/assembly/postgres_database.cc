#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "assembly/database.h"
#include "assembly/mapping.h"
#include "assembly/postgres_inbox.h"
#include "assembly/secrets.h"
#include "dovetail/postgres.h"
#include "host/host.h"
#include "postgres/connection/conninfo.h"
#include "postgres/doctor/doctor.h"
#include "postgres/inbox/origin_store.h"
#include "postgres/lane/lanes.h"
#include "postgres/operate/admin.h"
#include "postgres/operate/admin_slots.h"
#include "postgres/operate/life.h"
#include "postgres/operate/maintenance.h"
#include "postgres/operate/relay_control.h"
#include "postgres/operate/search.h"
#include "postgres/outbox/delayed.h"
#include "postgres/reconcile/inbox_scan.h"
#include "postgres/reconcile/outbox_scan.h"
#include "postgres/schema/schema.h"
#include "postgres/work/claims.h"
#include "postgres/work/requests.h"

namespace dovetail::assembly {
namespace {

using config::ConsumerConfig;
using config::StoreConfig;

class PostgresDatabase final : public Database {
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
  Status cancel(const EventId& id, const std::string& reason) override;
  Result<FoundEvents> search_events(const EventSearch& search) override {
    return postgres::search_events(store_.conninfo, search);
  }
  Result<std::vector<AuditRow>> list_audit(const AuditFilter& filter) override {
    return postgres::list_audit(store_.conninfo, filter);
  }
  Status note_reveal(const EventId& id, const std::string& reason) override {
    return postgres::note_reveal(store_.conninfo, id, reason);
  }
  Status note_refusal(const std::string& request, std::uint64_t times,
                      const std::string& reason) override {
    return postgres::note_refusal(store_.conninfo, request, times, reason);
  }
  Result<std::uint64_t> publish_edited(const EventId& replaced, const NewEvent& copy,
                                       const EventLimits& limits,
                                       const std::string& reason) override {
    return postgres::publish_edited(store_.conninfo, replaced, copy, limits, reason);
  }
  bool has_slots() const override { return true; }
  Result<std::vector<WalSlot>> list_slots() override;
  Status drop_slot(const std::string& name, bool force) override {
    return postgres::drop_wal_slot(store_.conninfo, name, force);
  }
  Result<std::vector<ParkedRow>> list_parked(const ParkedFilter& filter) override;
  Result<std::uint64_t> replay(const std::string& reader, const EventId& id,
                               const std::string& reason) override {
    return postgres::replay_event(store_.conninfo, reader, id, reason);
  }
  Status discard(const std::string& reader, const EventId& id, const std::string& reason) override;
  std::unique_ptr<Lane> make_lane(LanePlan&& plan, Clock& clock) override;
  std::unique_ptr<OriginStore> make_origin_store(const config::RelayConfig& relay,
                                                 const std::string& target, Clock& clock) override;
  Result<std::string> retarget(const std::string& relay, const std::string& target,
                               const std::string& reason) override;
  std::string place(const StoreConfig& home) const override;
  Result<std::shared_ptr<Sink>> make_inbox(const ConsumerConfig& consumer,
                                           std::uint32_t lane) override {
    return make_postgres_inbox(store_, consumer, lane);
  }
  std::unique_ptr<ClaimStore> make_claims(const std::string& name, Clock&) override {
    return std::make_unique<postgres::PostgresClaimStore>(store_.conninfo, name);
  }
  Status check_handlers(const ConsumerConfig& consumer) override {
    return check_postgres_handlers(store_, consumer);
  }
  Result<std::uint64_t> apply_event(const std::string& consumer, const EventId& id,
                                    const std::string& reason) override {
    return postgres::apply_event(store_.conninfo, consumer, id, reason);
  }
  Result<WallTime> remember_since(WallTime since, const std::string& reason) override {
    return postgres::remember_since(store_.conninfo, since, reason);
  }
  Result<std::uint64_t> forget_event(const std::string& consumer, const EventId& id,
                                     const std::string& reason) override {
    return postgres::forget_event(store_.conninfo, consumer, id, reason);
  }
  Result<bool> deliver_again(const std::string& reader, const EventId& id,
                             const std::string& reason) override {
    if (store_.tables.contains(reader)) return false;
    return postgres::deliver_again(store_.conninfo, reader, id, reason);
  }
  Status fill_relay(const EventRow& row, life::RelayFacts& relay) override {
    return postgres::fill_relay(store_.conninfo, row, relay);
  }
  Status fill_times(life::OutboxFacts& place) override;
  Result<std::vector<life::HandlerFacts>> list_handlers(const EventId& id) override {
    return postgres::list_handlers(store_.conninfo, id);
  }
  Result<std::unique_ptr<reconcile::OutboxScan>> scan_outbox(const std::string& relay,
                                                             WallTime from, WallTime to) override {
    return postgres::scan_outbox(store_.conninfo, relay, from, to);
  }
  Result<std::unique_ptr<reconcile::ReceiverScan>> scan_inbox(
      const std::string& consumer, const std::vector<std::string>& handlers) override {
    return postgres::scan_inbox(store_.conninfo, consumer, handlers);
  }
  std::unique_ptr<RequestStore> make_request_store(Duration limit) override {
    return std::make_unique<postgres::PostgresRequestStore>(store_.conninfo, limit);
  }
  Status write_hold(const std::string& relay, Hold hold, const std::string& reason) override {
    return postgres::write_hold(store_.conninfo, relay, hold, reason);
  }
  Result<bool> has_owner(const std::string& relay) override {
    return postgres::has_owner(store_.conninfo, relay);
  }
  Result<SeekCounts> write_seek(const std::string& relay, const SeekTo& to,
                                const std::string& reason, Hold after, bool dry_run) override {
    return postgres::write_seek(store_.conninfo, relay, to, reason, after, dry_run);
  }
  Result<std::string> write_rename(const std::string& relay, const std::string& new_name,
                                   const std::string& reason) override {
    return drop_left(postgres::write_rename(store_.conninfo, relay, new_name, reason));
  }
  Result<std::string> write_forget(const std::string& relay, const std::string& reason) override {
    return drop_left(postgres::write_forget(store_.conninfo, relay, reason));
  }
  Result<std::vector<RequestInfo>> list_requests(const RequestFilter& filter) override {
    return postgres::list_requests(store_.conninfo, filter);
  }
  Result<bool> forget_request(const RequestKey& request, std::string_view reason) override {
    return postgres::forget_request(store_.conninfo, request, reason);
  }
  Status check_requests() override { return postgres::check_requests(store_.conninfo); }
  Result<std::uint64_t> prune_requests(std::size_t rows_max) override {
    return postgres::prune_requests(store_.conninfo, rows_max);
  }

 private:
  // A slot that no relay uses any more would keep WAL for ever.
  Result<std::string> drop_left(Result<std::string> slot) {
    if (!slot || slot->empty()) return slot;
    const Status dropped = postgres::drop_wal_slot(store_.conninfo, *slot, false);
    if (dropped) return std::string();
    return "the slot " + *slot + " still keeps WAL (" + dropped.error().text +
           "); drop it with 'dovetail slots --drop " + *slot + "'";
  }
};

Status prepare(StoreConfig& store) {
  const auto conninfo = postgres::parse_conninfo(store.conninfo);
  if (!conninfo) return fail(conninfo.error().code, store.where + ": " + conninfo.error().text);
  auto password = read_password(store);  // without one, libpq uses its own sources
  if (!password) {
    store.unusable = store.where + ": " + password.error().text;
    password = std::string();
  }
  store.shown = conninfo->shown;
  store.conninfo =
      password->empty() ? conninfo->keywords : postgres::with_password(*conninfo, *password);
  if (!store.replication_conninfo.empty()) {
    const auto past = postgres::parse_conninfo(store.replication_conninfo);
    if (!past) return fail(past.error().code, store.replication_where + ": " + past.error().text);
    store.replication_conninfo =
        password->empty() ? past->keywords : postgres::with_password(*past, *password);
  }
  const auto mapped = mapped_relays(store);
  if (!mapped) return fail(mapped.error());
  return {};
}

postgres::MaintenanceOptions maintenance_options(const Retention& retention) {
  postgres::MaintenanceOptions options;
  options.events_older_than = retention.keep.delivered.value_or(kForever);
  options.parked_older_than = retention.keep.delivered.value_or(kForever);
  options.inbox_older_than = retention.keep.inbox.value_or(kForever);
  options.rows_max = retention.rows_max;
  return options;
}

Result<bool> PostgresDatabase::create(bool with_roles) {
  auto connection = postgres::Connection::open(store_.conninfo);
  if (!connection) return fail(connection.error());
  const bool existed = postgres::check_schema(*connection).has_value();
  DOVETAIL_TRY(postgres::create_schema(*connection));
  if (with_roles) DOVETAIL_TRY(postgres::create_roles(*connection));
  if (existed) return false;
  // Creates the first partitions, so that no event needs the default one.
  const auto maintained = postgres::maintain(store_.conninfo, maintenance_options({}));
  if (!maintained) return fail(maintained.error());
  return true;
}

// Of two lanes' states, the one that matters more to an operator.
const std::optional<SaidState>& worse(const std::optional<SaidState>& one,
                                      const std::optional<SaidState>& other) {
  const auto rank = [](const std::optional<SaidState>& said) {
    if (!said) return 0;
    if (!said->is_current) return 1;
    if (said->state == "halted") return 4;
    return said->state == "backing_off" ? 3 : 2;
  };
  return rank(other) > rank(one) ? other : one;
}

// Whose lease ran out is named only while nobody holds any.
void add_owner(RelayStatus& reader, const postgres::LaneStatus& lane) {
  const bool is_held = lane.lease_left > Duration::zero();
  const bool was_held = reader.lease_left > Duration::zero();
  if (is_held && !was_held) reader.owner.clear();
  reader.lease_left = std::max(reader.lease_left, lane.lease_left);
  // While nobody holds any lane, what matters is since when all of them are without one.
  reader.lease_ended_at = std::max(reader.lease_ended_at, lane.lease_ended_at);
  if (lane.owner.empty() || (was_held && !is_held)) return;
  if (reader.owner.find(lane.owner) == std::string::npos)
    reader.owner += (reader.owner.empty() ? "" : ", ") + lane.owner;
}

void add_lane(std::vector<RelayStatus>& readers, const postgres::LaneStatus& lane) {
  if (readers.empty() || readers.back().name != lane.relay) {
    readers.emplace_back();
    readers.back().name = lane.relay;
    readers.back().source = lane.source;
    // Only a relay with one lane can read the WAL, so the first lane is enough.
    if (lane.source != SourceKind::broker && lane.lease_left > Duration::zero())
      readers.back().reading = Reading{lane.reads_wal, lane.reads_since, lane.reads_why, lane.slot,
                                       static_cast<std::uint64_t>(lane.retained_wal)};
  }
  RelayStatus& reader = readers.back();
  reader.pending += lane.pending;
  reader.oldest_age = std::max(reader.oldest_age, lane.oldest_age);
  reader.is_pending_known = reader.is_pending_known && lane.is_pending_known;
  reader.is_age_known = reader.is_age_known && lane.is_age_known;
  reader.target = lane.target;
  if (lane.error) reader.error = lane.error->text;
  reader.events_per_second += lane.events_per_second;
  reader.delivered_total += lane.delivered_total;
  reader.parked_total += lane.parked_total;
  reader.replayed_total += lane.replayed_total;
  reader.skipped_total += lane.skipped_total;
  // A relay is drained once every lane is.
  if (reader.hold.hold == Hold::none || lane.hold.hold == Hold::draining) reader.hold = lane.hold;
  reader.parked += lane.parked;
  reader.waiting += lane.waiting;
  reader.epoch = std::max(reader.epoch, lane.epoch);
  reader.updated_at = std::max(reader.updated_at, lane.updated_at);
  add_owner(reader, lane);
  reader.lanes.push_back(
      {lane.lane, lane.pending, lane.owner, lane.epoch, lane.lease_left, lane.said});
  reader.said = worse(reader.said, lane.said);
}

Result<StoreStatus> PostgresDatabase::status() {
  const auto mapped = mapped_relays(store_);
  if (!mapped) return fail(mapped.error());
  auto found = postgres::status(store_.conninfo, *mapped);
  if (!found) return fail(found.error());
  StoreStatus result;
  for (const postgres::LaneStatus& lane : found->lanes) add_lane(result.relays, lane);
  for (RelayStatus& reader : result.relays) {
    if (const auto one = mapped->find(reader.name); one != mapped->end())
      reader.table = one->second.table;
  }
  result.consumers = std::move(found->consumers);
  result.queues = std::move(found->queues);
  result.inbox_rows = found->inbox_rows;
  result.outbox_rows = found->outbox_rows;
  result.are_rows_estimated = true;
  result.file_bytes = found->outbox_bytes;
  result.partitions = found->partitions;
  result.schema_version = found->schema_version;
  result.server_version = std::move(found->server_version);
  result.standby = found->standby;
  result.wal_end = found->wal_end;
  result.clock_ahead = found->clock_ahead;
  result.delayed = found->delayed;
  const bool is_read = std::any_of(found->lanes.begin(), found->lanes.end(), [](const auto& lane) {
    return lane.source == SourceKind::outbox;
  });
  // The estimate is 0 for a table that was never analysed; a pending event must still be
  // shown.
  if (!is_read && result.outbox_rows == 0) {
    const auto first = postgres::list_events(store_.conninfo, {.limit = 1000});
    if (!first) return fail(first.error());
    result.outbox_rows = first->size();
  }
  return result;
}

// The outbox, then the mapped tables. A position means something within one of them
// only.
Result<std::vector<EventRow>> PostgresDatabase::list_events(const EventFilter& filter) {
  if (filter.after != 0 && filter.relay.empty() && !store_.tables.empty()) {
    return fail(Errc::rejected,
                "several tables of this store hold events; choose one by its relay, with --relay");
  }
  const auto mapped = mapped_relays(store_);
  if (!mapped) return fail(mapped.error());
  std::vector<EventRow> rows;
  std::optional<Error> unread;
  if (!mapped->contains(filter.relay)) {
    auto found = postgres::list_events(store_.conninfo, filter);
    if (!found) return fail(found.error());
    rows = std::move(*found);
  }
  for (const auto& [relay, mapping] : *mapped) {
    if ((!filter.relay.empty() && relay != filter.relay) || rows.size() >= filter.limit) continue;
    EventFilter rest = filter;
    rest.limit = filter.limit - rows.size();
    auto found = postgres::list_mapped_events(store_.conninfo, relay, mapping, rest);
    if (found) {
      std::move(found->begin(), found->end(), std::back_inserter(rows));
      continue;
    }
    unread = Error{found.error().code, "relay " + relay + ": " + found.error().text};
    if (filter.id.empty()) return fail(*unread);
  }
  // An id is in one table, so what the others would have said does not matter.
  if (rows.empty() && unread) return fail(*unread);
  return rows;
}

// A table that cannot be read hides nothing that another one has.
Result<std::optional<std::string>> PostgresDatabase::payload_of(const EventId& id) {
  const auto mapped = mapped_relays(store_);
  if (!mapped) return fail(mapped.error());
  std::optional<Error> unread;
  for (const auto& [relay, mapping] : *mapped) {
    auto found = postgres::mapped_payload_of(store_.conninfo, mapping, id);
    if (found && *found) return found;
    if (!found) unread = Error{found.error().code, "relay " + relay + ": " + found.error().text};
  }
  auto found = postgres::payload_of(store_.conninfo, id);
  if (found && !*found && unread) return fail(*unread);
  return found;
}

Status PostgresDatabase::fill_times(life::OutboxFacts& place) {
  const auto mapped = mapped_relays(store_);
  if (!mapped) return fail(mapped.error());
  const auto one = mapped->find(place.row.relay);
  if (one == mapped->end()) return {};
  return postgres::fill_times(store_.conninfo, one->second, place);
}

Result<std::vector<WalSlot>> PostgresDatabase::list_slots() {
  const auto found = postgres::list_wal_slots(store_.conninfo);
  if (!found) return fail(found.error());
  std::vector<WalSlot> slots;
  for (const postgres::WalSlot& slot : *found)
    slots.push_back({.name = slot.name,
                     .database = slot.database,
                     .relay = slot.relay,
                     .is_here = slot.is_here,
                     .ends_by_itself = slot.temporary,
                     .read_by = slot.active ? slot.active_pid : 0,
                     .wal_status = slot.wal_status,
                     .invalidation = slot.invalidation,
                     .retained_bytes = slot.retained_bytes,
                     .safe_bytes = slot.safe_bytes});
  return slots;
}

Result<std::vector<ParkedRow>> PostgresDatabase::list_parked(const ParkedFilter& filter) {
  return postgres::list_parked(store_.conninfo, filter);
}

Status PostgresDatabase::discard(const std::string& reader, const EventId& id,
                                 const std::string& reason) {
  return postgres::discard(store_.conninfo, reader, id, reason);
}

Result<PruneReport> PostgresDatabase::prune(const Retention& retention) {
  auto done = postgres::maintain(store_.conninfo, maintenance_options(retention));
  if (!done) return fail(done.error());
  PruneReport report = *done;
  std::vector<std::string> notes;
  for (const std::string& name : done->dropped) notes.push_back("dropped the partition " + name);
  report.notes.insert(report.notes.begin(), notes.begin(), notes.end());
  return report;
}

// No checks first: a role that may only publish may not read the schema's version.
Result<EventId> PostgresDatabase::publish(const NewEvent& event, const EventLimits& limits,
                                          std::optional<WallTime> deliver_at) {
  auto connection = postgres::Connection::open(store_.conninfo);
  if (!connection) return fail(connection.error());
  auto transaction = postgres::Transaction::begin(*connection);
  if (!transaction) return fail(transaction.error());
  auto id = deliver_at ? postgres::publish_at(connection->get(), event, *deliver_at, limits)
                       : postgres::publish(connection->get(), event, limits);
  if (!id) return id;
  DOVETAIL_TRY(transaction->commit());
  return id;
}

Status PostgresDatabase::cancel(const EventId& id, const std::string& reason) {
  return postgres::cancel_delayed(store_.conninfo, id, reason);
}

Result<std::vector<Finding>> PostgresDatabase::examine(const config::Config& config) {
  postgres::DoctorOptions options;
  options.replication_conninfo = store_.replication_conninfo;
  options.payload_bytes_max = store_.payload_bytes_max;
  for (const config::RelayConfig* relay : config.readers()) {
    const bool is_wal = relay->reading.mode == ReadMode::wal;
    const bool is_own_table = store_.tables.contains(relay->name);
    if (relay->from != store_.name || relay->reading.mode == ReadMode::poll) continue;
    // With several lanes, or marks, the table itself is read.
    if (!is_wal && (relay->lanes > 1 || is_own_table)) continue;
    options.wal_readers.push_back({relay->name, relay->reading});
  }
  auto mapped = mapped_relays(store_);
  if (!mapped) return fail(mapped.error());
  options.mapped = std::move(*mapped);
  return postgres::examine(store_.conninfo, options, system_clock());
}

// The mapping of the table that the relay serves; empty: it reads the outbox. prepare() has refused
// errors.
std::optional<postgres::TableMapping> mapping_for(const StoreConfig& from,
                                                  const std::string& relay) {
  const auto table = from.tables.find(relay);
  if (table == from.tables.end()) return std::nullopt;
  return mapping_of(table->second).value();
}

class PostgresLane final : public Lane {
 public:
  PostgresLane(LanePlan plan, Clock& clock)
      : topics_(std::move(plan.topics)),
        lanes_({.conninfo = plan.from.conninfo,
                .relay = plan.relay.name,
                .owner = process_label(),
                .target = plan.target,
                .lanes = plan.relay.lanes,
                .starts_now = plan.relay.starts_now,
                .mapping = mapping_for(plan.from, plan.relay.name),
                .reading = plan.relay.reading,
                .replication_conninfo = plan.from.replication_conninfo,
                .lease_term = plan.relay.lease,
                .relay_options = options_of(plan.relay),
                .topics = topics_ ? &*topics_ : nullptr,
                .notify = [tell = std::move(plan.notify)](
                              std::int32_t, const RelayNotice& notice) { tell(notice); }},
               clock, std::move(plan.make_sink)) {}

  Status run(std::stop_token stop) override { return lanes_.run(stop); }
  const RelayMetrics& metrics() const override { return lanes_.metrics(); }
  std::uint64_t wal_settled() const override { return lanes_.wal_settled(); }

 private:
  std::optional<TopicTemplate> topics_;
  postgres::Lanes lanes_;
};

std::unique_ptr<Lane> PostgresDatabase::make_lane(LanePlan&& plan, Clock& clock) {
  return std::make_unique<PostgresLane>(std::move(plan), clock);
}

std::unique_ptr<OriginStore> PostgresDatabase::make_origin_store(const config::RelayConfig& relay,
                                                                 const std::string& target,
                                                                 Clock& clock) {
  return std::make_unique<postgres::PostgresOriginStore>(store_.conninfo, relay.name, target,
                                                         relay.lease, clock);
}

Result<std::string> PostgresDatabase::retarget(const std::string& relay, const std::string& target,
                                               const std::string& reason) {
  return postgres::retarget(store_.conninfo, relay, target, reason);
}

// The url as people see it, without the user.
std::string PostgresDatabase::place(const StoreConfig&) const {
  std::string text = "postgres";
  std::string_view rest = store_.shown;
  rest.remove_prefix(std::min(rest.size(), rest.find(':') + 1));
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    const std::string_view word = rest.substr(0, end);
    if (!word.starts_with("user=")) text += " " + std::string(word);
    rest.remove_prefix(std::min(rest.size(), end + 1));
  }
  return text;
}

std::unique_ptr<Database> open(const StoreConfig& store) {
  return std::make_unique<PostgresDatabase>(store);
}

std::string migration_sql(bool with_roles) {
  return postgres::schema_sql() + (with_roles ? "\n" + postgres::roles_sql() : "");
}

}  // namespace

const DatabaseKind kPostgres = {.scheme = config::StoreScheme::postgres,
                                .prepare = prepare,
                                .open = open,
                                .migration_sql = migration_sql};

}  // namespace dovetail::assembly

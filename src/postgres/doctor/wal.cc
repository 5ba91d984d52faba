// The server's log: what its readers need, and the slots that keep it.
#include <algorithm>
#include <optional>

#include "postgres/doctor/checks.h"
#include "postgres/wal/slot.h"

namespace dovetail::postgres {

namespace {

// Settings that a version does not have are null. Standbys are those that stream without a logical
// slot.
constexpr std::string_view kSettings =
    "SELECT pg_catalog.current_setting('server_version_num')::int / 10000, "
    "pg_catalog.current_setting('max_replication_slots')::int8 - (SELECT count(*) FROM "
    "pg_catalog.pg_replication_slots), pg_catalog.current_setting('max_wal_senders')::int8 - "
    "(SELECT count(*) FROM pg_catalog.pg_stat_replication), "
    "(SELECT setting::int8 * 1048576 FROM pg_catalog.pg_settings WHERE name = "
    "'max_slot_wal_keep_size'), "
    "coalesce((SELECT setting::int8 FROM pg_catalog.pg_settings WHERE name = "
    "'wal_sender_timeout'), 0), "
    "coalesce(pg_catalog.current_setting('idle_replication_slot_timeout', true), '0') NOT IN "
    "('0', '0s', '0min'), "
    "coalesce(pg_catalog.current_setting('idle_replication_slot_timeout', true), '0'), "
    "coalesce(pg_catalog.current_setting('synchronized_standby_slots', true), ''), "
    "(SELECT count(*) FROM pg_catalog.pg_stat_replication r WHERE r.state IN ('catchup', "
    "'streaming') AND NOT EXISTS (SELECT FROM "
    "pg_catalog.pg_replication_slots s WHERE s.active_pid = r.pid AND s.slot_type = 'logical'))";

struct Settings {
  std::int32_t version = 0;  // 15
  std::int64_t slots_free = 0;
  std::int64_t senders_free = 0;
  std::int64_t keep_bytes = -1;         // for a slot; below 0: without limit
  std::int64_t sender_timeout_ms = 0;   // 0: none
  bool has_idle_timeout = false;        // of slots
  std::string idle_timeout{};           // as the server writes it
  std::string synchronized_standbys{};  // that a logical slot waits for
  std::int64_t standbys = 0;
};

// Ours are known by their names, and those that a relay has taken over by its row.
constexpr std::string_view kSlotsOfOurs =
    "SELECT s.slot_name::text, coalesce(s.database::text, ''), s.database = "
    "pg_catalog.current_database(), s.active, coalesce(s.wal_status, ''), "
    "coalesce(pg_catalog.to_jsonb(s) ->> 'invalidation_reason', ''), "
    "greatest(coalesce(CASE WHEN pg_catalog.pg_is_in_recovery() THEN 0 ELSE "
    "pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_current_wal_lsn(), s.restart_lsn) END, 0), 0)::int8, "
    "coalesce(pg_catalog.age(s.catalog_xmin), 0)::int8, "
    "coalesce((pg_catalog.to_jsonb(s) ->> 'failover')::boolean, false), coalesce((SELECT r.relay "
    "FROM dovetail.relay_lane r WHERE r.slot = s.slot_name AND s.database = "
    "pg_catalog.current_database() LIMIT 1), '') FROM pg_catalog.pg_replication_slots s WHERE NOT "
    "s.temporary AND s.slot_type = 'logical' AND (pg_catalog.starts_with(s.slot_name::text, "
    "'dovetail_') OR (s.database = pg_catalog.current_database() AND s.slot_name::text IN (SELECT "
    "r.slot FROM dovetail.relay_lane r))) ORDER BY 1";

struct Slot {
  std::string name{};
  std::string database{};
  bool is_here = false;  // in this database
  bool active = false;
  std::string wal_status{};
  std::string invalidation{};
  std::int64_t retained = 0;
  std::int64_t catalog_age = 0;
  bool failover = false;
  std::string relay{};  // that reads through it; empty: none in this database
};

std::string quoted(std::string_view text) { return "\"" + std::string(text) + "\""; }

bool any_required(const DoctorOptions& options) {
  return std::any_of(options.log_readers.begin(), options.log_readers.end(),
                     [](const LogReader& reader) { return reader.is_required; });
}

const LogReader* reader_of(const Slot& slot, const DoctorOptions& options) {
  for (const LogReader& reader : options.log_readers) {
    if (reader.is_required && slot.is_here && reader.relay == slot.relay) return &reader;
  }
  return nullptr;
}

Result<Settings> read_settings(Connection& connection) {
  const Result<Rows> rows = connection.query(kSettings);
  if (!rows) return fail(rows.error());
  Settings settings;
  settings.version = rows->int4(0, 0);
  settings.slots_free = rows->int8(0, 1);
  settings.senders_free = rows->int8(0, 2);
  if (!rows->is_null(0, 3)) settings.keep_bytes = rows->int8(0, 3);
  settings.sender_timeout_ms = rows->int8(0, 4);
  settings.has_idle_timeout = rows->boolean(0, 5);
  settings.idle_timeout = std::string(rows->text(0, 6));
  settings.synchronized_standbys = std::string(rows->text(0, 7));
  settings.standbys = rows->int8(0, 8);
  return settings;
}

Result<std::vector<Slot>> read_slots(Connection& connection) {
  const Result<Rows> rows = connection.query(kSlotsOfOurs);
  if (!rows) return fail(rows.error());
  std::vector<Slot> slots;
  for (std::size_t i = 0; i < rows->size(); ++i) {
    Slot& slot = slots.emplace_back();
    slot.name = std::string(rows->text(i, 0));
    slot.database = std::string(rows->text(i, 1));
    slot.is_here = !rows->is_null(i, 2) && rows->boolean(i, 2);
    slot.active = rows->boolean(i, 3);
    slot.wal_status = std::string(rows->text(i, 4));
    slot.invalidation = std::string(rows->text(i, 5));
    slot.retained = rows->int8(i, 6);
    slot.catalog_age = rows->int8(i, 7);
    slot.failover = rows->boolean(i, 8);
    slot.relay = std::string(rows->text(i, 9));
  }
  return slots;
}

void examine_limits(const Settings& settings, const std::vector<Slot>& slots,
                    const DoctorOptions& options, Findings& findings) {
  const bool required = any_required(options);
  const bool has_one = std::any_of(slots.begin(), slots.end(),
                                   [](const Slot& slot) { return slot.is_here && slot.active; });
  const Severity severity = required && !has_one ? Severity::error : Severity::note;
  const std::string meanwhile =
      required ? "" : "; until then relays with mode = \"auto\" read the table";
  if (settings.slots_free <= 0)
    findings.add(severity, "no-slot-free",
                 "every one of max_replication_slots is taken, so no relay can begin to read the "
                 "log" +
                     meanwhile,
                 "raise max_replication_slots and restart the server, or drop slots that nobody "
                 "needs: SELECT * FROM pg_replication_slots");
  if (settings.senders_free <= 0)
    findings.add(
        severity, "no-sender-free",
        "all max_wal_senders are in use, so no other relay can start to read the WAL" + meanwhile,
        "raise max_wal_senders and restart the server");
  if (settings.sender_timeout_ms == 0)
    findings.add(Severity::note, "sender-timeout",
                 "wal_sender_timeout is 0: a relay on a vanished machine holds its slot until TCP "
                 "times out",
                 "set wal_sender_timeout = 60s");
  else if (settings.sender_timeout_ms < 5000)
    findings.add(Severity::warning, "sender-timeout",
                 "wal_sender_timeout is " + std::to_string(settings.sender_timeout_ms) +
                     " ms: a short pause of the network ends the stream, and it starts over",
                 "set it to 10s or more");
}

void examine_keeping(const Settings& settings, const DoctorOptions& options, Findings& findings) {
  if (!any_required(options)) return;
  std::int64_t budget = 0;
  for (const LogReader& reader : options.log_readers)
    if (reader.is_required) budget = std::max(budget, reader.retained_wal_max);
  if (settings.keep_bytes < 0) {
    findings.add(Severity::warning, "keep-size",
                 "max_slot_wal_keep_size is -1: while a relay with mode = \"wal\" does not run, "
                 "the server retains WAL without limit, until the disk is full",
                 "set max_slot_wal_keep_size to what the disk can spare, but more than "
                 "retained_wal_max (" +
                     shown_bytes(budget) + ")");
  } else if (settings.keep_bytes < budget) {
    findings.add(Severity::note, "keep-size",
                 "max_slot_wal_keep_size is " + shown_bytes(settings.keep_bytes) +
                     ", so the server invalidates a slot before its relay gives it up at " +
                     shown_bytes(budget),
                 "this loses no events of the outbox; lower retained_wal_max so that the relay "
                 "gives up first and reports it");
  }
  if (settings.has_idle_timeout)
    findings.add(
        Severity::note, "idle-slot-timeout",
        "idle_replication_slot_timeout is " + settings.idle_timeout +
            ": if a relay is stopped for longer, its slot is invalidated; it then continues from "
            "the table and creates another slot",
        "set it longer than any relay is ever stopped, or to 0");
}

void examine_failover(const Settings& settings, const std::vector<Slot>& slots,
                      const DoctorOptions& options, Findings& findings) {
  if (!any_required(options)) return;
  const std::string after = "its relay continues from the table and creates another slot";
  if (settings.version < 17 && settings.standbys > 0)
    findings.add(Severity::note, "failover", "a promoted standby does not have the slot: " + after,
                 "nothing to do in this server version; PostgreSQL 17 keeps slots on standbys");
  for (const Slot& slot : slots) {
    if (settings.version < 17 || slot.failover || reader_of(slot, options) == nullptr) continue;
    findings.add(Severity::note, "failover",
                 "the slot " + slot.name + " is not synchronised to standbys: " + after,
                 "stop its relay and drop it with `dovetail slots --drop " + slot.name +
                     " --force`: the relay creates it again as a failover slot; and set "
                     "sync_replication_slots = on at the standbys");
  }
  if (settings.version >= 17 && settings.standbys > 0 && settings.synchronized_standbys.empty())
    findings.add(
        Severity::note, "standby-behind",
        "synchronized_standby_slots is empty: an event can be delivered before any standby "
        "has its transaction; if the primary is then lost, the event has no transaction",
        "name the slots of the standbys in synchronized_standby_slots, or commit with "
        "synchronous_standby_names");
}

// A slot is made when all that write at that time have ended.
Status examine_waiting(Connection& connection, const DoctorOptions& options, Findings& findings) {
  const Result<Rows> rows = connection.query(
      "SELECT who, (EXTRACT(epoch FROM pg_catalog.clock_timestamp() - since) * 1000000)::int8 FROM "
      "(SELECT 'transaction of pid ' || pid, xact_start FROM pg_catalog.pg_stat_activity WHERE "
      "backend_xid IS NOT NULL UNION ALL SELECT 'prepared transaction ' || "
      "pg_catalog.quote_literal(gid), prepared FROM pg_catalog.pg_prepared_xacts) AS open (who, "
      "since) WHERE since < pg_catalog.clock_timestamp() - $1::int8 * interval '1 microsecond' "
      "ORDER BY since LIMIT 1",
      Params().int8(options.slot_wait_max.count()));
  if (!rows) return fail(rows.error());
  if (!rows->empty())
    findings.add(Severity::note, "slot-waits",
                 "the server creates no slot while the " + std::string(rows->text(0, 0)) +
                     " is open, so far for " + shown(Duration{rows->int8(0, 1)}) +
                     "; a starting relay reads the table until then",
                 "find out why it is open, and set idle_in_transaction_session_timeout; a prepared "
                 "transaction ends with COMMIT PREPARED or ROLLBACK PREPARED");
  return {};
}

void examine_idle(const Slot& slot, const DoctorOptions& options, Findings& findings) {
  const std::string kept = "the server retains " + shown_bytes(slot.retained) + " of WAL for it";
  const std::string drop = "`dovetail slots --drop " + slot.name + "`";
  if (!slot.is_here) {
    if (slot.retained > options.idle_slot_bytes_max)
      findings.add(Severity::warning, "slot-idle",
                   "no process uses the slot " + slot.name + " of the database " +
                       quoted(slot.database) + ", and " + kept,
                   "start its relay, or drop it with " + drop + " there");
    return;
  }
  if (slot.relay.empty()) {
    findings.add(Severity::warning, "slot-orphan",
                 "the slot " + slot.name + " belongs to no relay of this database, and " + kept,
                 "drop it with " + drop);
    return;
  }
  if (reader_of(slot, options) == nullptr) {
    findings.add(Severity::warning, "slot-unused",
                 "the slot " + slot.name + " belongs to the relay " + quoted(slot.relay) +
                     ", which does not use it according to this config file, and " + kept,
                 "drop it with " + drop +
                     " --force, unless another config file has mode = \"wal\" "
                     "for it");
    return;
  }
  findings.add(slot.retained > options.idle_slot_bytes_max ? Severity::warning : Severity::note,
               "slot-idle",
               "no process uses the slot " + slot.name + " of the relay " + quoted(slot.relay) +
                   ", and " + kept,
               "start the relay, or drop the slot with " + drop +
                   " --force: events are then read from the table");
}

void examine_slot(const Slot& slot, const DoctorOptions& options, Findings& findings) {
  const LogReader* reader = reader_of(slot, options);
  const std::string named = "the slot " + slot.name;
  if (slot.wal_status == "lost") {
    findings.add(Severity::warning, "slot-lost",
                 named + " is lost: the server removed WAL that the relay had not read" +
                     (slot.invalidation.empty() ? "" : " (" + slot.invalidation + ")"),
                 slot.relay.empty()
                     ? "drop it with `dovetail slots --drop " + slot.name + "`"
                     : "start its relay, which creates another slot and reads the "
                       "missing events from the table; then raise max_slot_wal_keep_size");
    return;
  }
  if (!slot.active) examine_idle(slot, options, findings);
  if (slot.wal_status == "unreserved" || slot.wal_status == "extended")
    findings.add(Severity::warning, "slot-behind",
                 named + " is " + slot.wal_status + ": the server retains " +
                     shown_bytes(slot.retained) + " of WAL for it, more than max_wal_size" +
                     (slot.wal_status == "unreserved" ? ", and may invalidate it at any time" : ""),
                 "check the sink and the log of the relay that uses it");
  else if (reader != nullptr && slot.active && slot.retained > reader->retained_wal_max / 2)
    findings.add(Severity::warning, "slot-behind",
                 named + " retains " + shown_bytes(slot.retained) + " of WAL; at " +
                     shown_bytes(reader->retained_wal_max) + " the relay gives it up",
                 "check the sink and the log of the relay " + quoted(slot.relay));
  if (slot.catalog_age > options.catalog_age_max)
    findings.add(Severity::warning, "slot-age",
                 named + " is " + std::to_string(slot.catalog_age) +
                     " transactions old: dead rows of the catalogue stay until it advances",
                 "start the relay that uses it, or drop it");
}

// Whether the log can be read, as far as the catalogue tells. `connection` has the role for it.
Result<bool> examine_readable(Connection& connection, const DoctorOptions& options,
                              Findings& findings) {
  const Result<std::optional<std::string>> why_not =
      why_not_streamed(connection, kOutboxPublication);
  if (!why_not) return fail(why_not.error());
  if (!*why_not) return true;
  if (any_required(options))
    findings.add(Severity::error, "log-unreadable",
                 "a relay must read the WAL (mode = \"wal\") but cannot: " + **why_not,
                 "fix it, or use mode = \"auto\"");
  else
    findings.add(Severity::note, "log-unreadable",
                 "relays read the table instead of the WAL, because " + **why_not,
                 "events arrive some milliseconds later and the relays poll the server; if that is "
                 "intended, set mode = \"poll\"");
  return false;
}

}  // namespace

std::string shown_bytes(std::int64_t bytes) {
  constexpr std::int64_t kMiB = 1 << 20;
  if (bytes < 1 << 10) return std::to_string(bytes) + " B";
  if (bytes < kMiB) return std::to_string(bytes >> 10) + " KiB";
  if (bytes < 10 * 1024 * kMiB) return std::to_string(bytes / kMiB) + " MiB";
  return std::to_string(bytes / kMiB / 1024) + " GiB";
}

Status examine_log(Connection& connection, const std::string& url, const DoctorOptions& options,
                   Findings& findings) {
  const Result<std::vector<Slot>> slots = read_slots(connection);
  if (!slots) return fail(slots.error());
  for (const Slot& slot : *slots) examine_slot(slot, options, findings);
  if (options.log_readers.empty()) return {};

  const std::string& conninfo =
      options.replication_conninfo.empty() ? url : options.replication_conninfo;
  Connection past_pooler;
  if (!options.replication_conninfo.empty()) {
    Result<Connection> opened = Connection::open(conninfo);
    if (!opened) {
      findings.add(any_required(options) ? Severity::error : Severity::warning, "replication-url",
                   "cannot reach the server through replication_url", opened.error().text);
      return {};
    }
    past_pooler = std::move(*opened);
    examine_transport(transport_of(past_pooler), "replication_url", findings);
  }
  const Result<bool> readable =
      examine_readable(past_pooler ? past_pooler : connection, options, findings);
  if (!readable) return fail(readable.error());
  const Result<Settings> settings = read_settings(connection);
  if (!settings) return fail(settings.error());
  if (!*readable) return {};
  examine_limits(*settings, *slots, options, findings);
  examine_keeping(*settings, options, findings);
  examine_failover(*settings, *slots, options, findings);
  DOVETAIL_TRY(examine_waiting(connection, options, findings));
  return prove_log(connection, conninfo, options, findings);
}

}  // namespace dovetail::postgres

// The server's WAL: what its readers need, and the slots that keep it.
#include <algorithm>
#include <optional>

#include "postgres/doctor/checks.h"
#include "postgres/wal/slot.h"

namespace dovetail::postgres {

namespace {

using F = const Facts&;

// Settings that a version does not have are null. Standbys are those that stream without a logical
// slot.
constexpr std::string_view kSettingsSql =
    R"(SELECT pg_catalog.current_setting('server_version_num')::int / 10000 AS version,
              pg_catalog.current_setting('max_replication_slots')::int8
                - (SELECT count(*) FROM pg_catalog.pg_replication_slots) AS slots_free,
              pg_catalog.current_setting('max_wal_senders')::int8
                - (SELECT count(*) FROM pg_catalog.pg_stat_replication) AS senders_free,
              (SELECT setting::int8 * 1048576 FROM pg_catalog.pg_settings
               WHERE name = 'max_slot_wal_keep_size') AS keep_bytes,
              coalesce((SELECT setting::int8 FROM pg_catalog.pg_settings
                        WHERE name = 'wal_sender_timeout'), 0) AS sender_timeout_ms,
              coalesce(pg_catalog.current_setting('idle_replication_slot_timeout', true), '0')
                NOT IN ('0', '0s', '0min') AS has_idle_timeout,
              coalesce(pg_catalog.current_setting('idle_replication_slot_timeout', true), '0')
                AS idle_timeout,
              coalesce(pg_catalog.current_setting('synchronized_standby_slots', true), '')
                AS synchronized_standbys,
              (SELECT count(*) FROM pg_catalog.pg_stat_replication r
               WHERE r.state IN ('catchup', 'streaming') AND NOT EXISTS (
                 SELECT FROM pg_catalog.pg_replication_slots s
                 WHERE s.active_pid = r.pid AND s.slot_type = 'logical')) AS standbys)";

// Ours are known by their names, and those that a relay has taken over by its row.
constexpr std::string_view kSlotsSql =
    R"(SELECT s.slot_name::text AS slot, coalesce(s.database::text, '') AS database,
              s.database = pg_catalog.current_database() AS is_here, s.active AS is_active,
              coalesce(s.wal_status, '') AS wal_status,
              coalesce(' (' || (pg_catalog.to_jsonb(s) ->> 'invalidation_reason') || ')', '')
                AS invalidation,
              greatest(coalesce(CASE WHEN pg_catalog.pg_is_in_recovery() THEN 0
                                ELSE pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_current_wal_lsn(),
                                                                s.restart_lsn) END, 0), 0)::int8
                AS retained,
              coalesce(pg_catalog.age(s.catalog_xmin), 0)::int8 AS catalog_age,
              coalesce((pg_catalog.to_jsonb(s) ->> 'failover')::boolean, false) AS is_failover,
              (SELECT r.relay FROM dovetail.relay_lane r
               WHERE r.slot = s.slot_name AND s.database = pg_catalog.current_database() LIMIT 1)
                AS relay
       FROM pg_catalog.pg_replication_slots s
       WHERE NOT s.temporary AND s.slot_type = 'logical'
         AND (pg_catalog.starts_with(s.slot_name::text, 'dovetail_')
              OR (s.database = pg_catalog.current_database()
                  AND s.slot_name::text IN (SELECT r.slot FROM dovetail.relay_lane r)))
       ORDER BY 1)";

// `is_required`: a relay does not run without the WAL. `budget`: what relays let the server keep.
// `is_stuck`: and none reads it.
Severity if_stuck(F f) { return f.is("is_stuck") ? Severity::error : Severity::note; }
constexpr Check kWalSettings[] = {
    {if_stuck, "no-slot-free", [](F f) { return f.number("slots_free") <= 0; },
     "every one of max_replication_slots is taken, so no relay can begin to read the "
     "log{meanwhile}",
     "raise max_replication_slots and restart the server, or drop slots that nobody needs: SELECT "
     "* FROM pg_replication_slots"},
    {if_stuck, "no-sender-free", [](F f) { return f.number("senders_free") <= 0; },
     "all max_wal_senders are in use, so no other relay can start to read the WAL{meanwhile}",
     "raise max_wal_senders and restart the server"},
    {Severity::note, "sender-timeout", [](F f) { return f.number("sender_timeout_ms") == 0; },
     "wal_sender_timeout is 0: a relay on a vanished machine holds its slot until TCP times out",
     "set wal_sender_timeout = 60s"},
    {Severity::warning, "sender-timeout",
     [](F f) { return f.number("sender_timeout_ms") > 0 && f.number("sender_timeout_ms") < 5000; },
     "wal_sender_timeout is {sender_timeout_ms} ms: a short pause of the network ends the stream, "
     "and it starts over",
     "set it to 10s or more"},
    {Severity::warning, "keep-size",
     [](F f) { return f.is("is_required") && f.number("keep_bytes", -1) < 0; },
     "max_slot_wal_keep_size is -1: while a relay with mode = \"wal\" does not run, the server "
     "retains WAL without limit, until the disk is full",
     "set max_slot_wal_keep_size to what the disk can spare, but more than retained_wal_max "
     "({budget:bytes})"},
    {Severity::note, "keep-size",
     [](F f) {
       return f.is("is_required") && f.number("keep_bytes", -1) >= 0 &&
              f.number("keep_bytes") < f.number("budget");
     },
     "max_slot_wal_keep_size is {keep_bytes:bytes}, so the server invalidates a slot before its "
     "relay gives it up at {budget:bytes}",
     "this loses no events of the outbox; lower retained_wal_max so that the relay gives up first "
     "and reports it"},
    {Severity::note, "idle-slot-timeout",
     [](F f) { return f.is("is_required") && f.is("has_idle_timeout"); },
     "idle_replication_slot_timeout is {idle_timeout}: if a relay is stopped for longer, its slot "
     "is invalidated; it then continues from the table and creates another slot",
     "set it longer than any relay is ever stopped, or to 0"},
    {Severity::note, "failover",
     [](F f) {
       return f.is("is_required") && f.number("version") < 17 && f.number("standbys") > 0;
     },
     "a promoted standby does not have the slot: its relay continues from the table and creates "
     "another slot",
     "nothing to do in this server version; PostgreSQL 17 keeps slots on standbys"},
    {Severity::note, "standby-behind",
     [](F f) {
       return f.is("is_required") && f.number("version") >= 17 && f.number("standbys") > 0 &&
              f.text("synchronized_standbys").empty();
     },
     "synchronized_standby_slots is empty: an event can be delivered before any standby has its "
     "transaction; if the primary is then lost, the event has no transaction",
     "name the slots of the standbys in synchronized_standby_slots, or commit with "
     "synchronous_standby_names"},
};

// A slot is made when all that write at that time have ended.
const Probe kWaiting{
    R"(SELECT who, (EXTRACT(epoch FROM pg_catalog.clock_timestamp() - since) * 1000000)::int8 AS age
       FROM (SELECT 'transaction of pid ' || pid, xact_start FROM pg_catalog.pg_stat_activity
             WHERE backend_xid IS NOT NULL
             UNION ALL
             SELECT 'prepared transaction ' || pg_catalog.quote_literal(gid), prepared
             FROM pg_catalog.pg_prepared_xacts) AS open (who, since)
       WHERE since < pg_catalog.clock_timestamp() - $1::int8 * interval '1 microsecond'
       ORDER BY since LIMIT 1)",
    {{Severity::note, "slot-waits", nullptr,
      "the server creates no slot while the {who} is open, so far for {age:age}; a starting relay "
      "reads the table until then",
      "find out why it is open, and set idle_in_transaction_session_timeout; a prepared "
      "transaction ends with COMMIT PREPARED or ROLLBACK PREPARED"}},
    "slot_wait_max"};

// `is_read`: by a relay of the config file that goes through a slot, which gives it up at
// `retained_max`.
bool is_lost(F f) { return f.is("wal_status", "lost"); }
bool is_idle(F f) { return !is_lost(f) && !f.is("is_active"); }
bool is_kept(F f) { return f.number("retained") > f.number("idle_slot_bytes_max"); }
constexpr Check kSlot[] = {
    {Severity::warning, "slot-lost", [](F f) { return is_lost(f) && !f.has("relay"); },
     "the slot {slot} is lost: the server removed WAL that the relay had not read{invalidation}",
     "drop it with 'dovetail slots --drop {slot}'"},
    {Severity::warning, "slot-lost", [](F f) { return is_lost(f) && f.has("relay"); },
     "the slot {slot} is lost: the server removed WAL that the relay had not read{invalidation}",
     "start its relay, which creates another slot and reads the missing events from the table; "
     "then raise max_slot_wal_keep_size"},
    {Severity::warning, "slot-idle",
     [](F f) { return is_idle(f) && !f.is("is_here") && is_kept(f); },
     "no process uses the slot {slot} of the database \"{database}\", and the server retains "
     "{retained:bytes} of WAL for it",
     "start its relay, or drop it with 'dovetail slots --drop {slot}' there"},
    {Severity::warning, "slot-orphan",
     [](F f) { return is_idle(f) && f.is("is_here") && !f.has("relay"); },
     "the slot {slot} belongs to no relay of this database, and the server retains "
     "{retained:bytes} of WAL for it",
     "drop it with 'dovetail slots --drop {slot}'"},
    {Severity::warning, "slot-unused",
     [](F f) { return is_idle(f) && f.is("is_here") && f.has("relay") && !f.is("is_read"); },
     "the slot {slot} belongs to the relay \"{relay}\", which does not use it according to this "
     "config file, and the server retains {retained:bytes} of WAL for it",
     "drop it with 'dovetail slots --drop {slot}' --force, unless another config file has mode = "
     "\"wal\" for it"},
    {[](F f) { return is_kept(f) ? Severity::warning : Severity::note; }, "slot-idle",
     [](F f) { return is_idle(f) && f.is("is_here") && f.is("is_read"); },
     "no process uses the slot {slot} of the relay \"{relay}\", and the server retains "
     "{retained:bytes} of WAL for it",
     "start the relay, or drop the slot with 'dovetail slots --drop {slot}' --force: events are "
     "then read from the table"},
    {Severity::warning, "slot-behind", [](F f) { return f.is("wal_status", "unreserved"); },
     "the slot {slot} is unreserved: the server retains {retained:bytes} of WAL for it, more than "
     "max_wal_size, and may invalidate it at any time",
     "check the target and the log of the relay that uses it"},
    {Severity::warning, "slot-behind", [](F f) { return f.is("wal_status", "extended"); },
     "the slot {slot} is extended: the server retains {retained:bytes} of WAL for it, more than "
     "max_wal_size",
     "check the target and the log of the relay that uses it"},
    {Severity::warning, "slot-behind",
     [](F f) {
       return f.is("wal_status", "reserved") && f.is("is_read") && f.is("is_active") &&
              f.number("retained") > f.number("retained_max") / 2;
     },
     "the slot {slot} retains {retained:bytes} of WAL; at {retained_max:bytes} the relay gives it "
     "up",
     "check the target and the log of the relay \"{relay}\""},
    {Severity::warning, "slot-age",
     [](F f) { return !is_lost(f) && f.number("catalog_age") > f.number("catalog_age_max"); },
     "the slot {slot} is {catalog_age} transactions old: dead rows of the catalogue stay until it "
     "advances",
     "start the relay that uses it, or drop it"},
};
constexpr Check kFailover{
    Severity::note, "failover", [](F f) { return f.is("is_read") && !f.is("is_failover"); },
    "the slot {slot} is not synchronised to standbys: its relay continues from the table and "
    "creates another slot",
    "stop its relay and drop it with 'dovetail slots --drop {slot} --force': the relay creates it "
    "again as a failover slot; and set sync_replication_slots = on at the standbys"};

constexpr Check kReplicationUrl{
    [](F f) { return f.is("is_required") ? Severity::error : Severity::warning; },
    "replication-url", nullptr, "cannot reach the server through replication_url", "{error}"};
constexpr Check kUnreadable[] = {
    {Severity::error, "log-unreadable", [](F f) { return f.is("is_required"); },
     "a relay must read the WAL (mode = \"wal\") but cannot: {why}",
     "fix it, or use mode = \"auto\""},
    {Severity::note, "log-unreadable", [](F f) { return !f.is("is_required"); },
     "relays read the table instead of the WAL, because {why}",
     "events arrive some milliseconds later and the relays poll the server; if that is intended, "
     "set mode = \"poll\""},
};

const WalReader* reader_of(const Facts& slot, const DoctorOptions& options) {
  for (const WalReader& reader : options.wal_readers)
    if (reader.is_required() && slot.is("is_here") && slot.is("relay", reader.relay))
      return &reader;
  return nullptr;
}

// What relays of the config file need of the WAL.
Facts needs_of(const DoctorOptions& options) {
  bool is_required = false;
  std::int64_t budget = 0;
  for (const WalReader& reader : options.wal_readers) {
    if (!reader.is_required()) continue;
    is_required = true;
    budget = std::max(budget, reader.reading.retained_wal_max);
  }
  return facts_of(options)
      .set("is_required", is_required)
      .set("budget", budget)
      .set("meanwhile",
           is_required ? "" : "; until then relays with mode = \"auto\" read the table");
}

Result<std::vector<Facts>> read_slots(Connection& connection, const DoctorOptions& options) {
  auto slots = ask(connection, kSlotsSql, {}, facts_of(options));
  if (!slots) return slots;
  for (Facts& slot : *slots) {
    const WalReader* reader = reader_of(slot, options);
    slot.set("is_read", reader != nullptr);
    if (reader != nullptr) slot.set("retained_max", reader->reading.retained_wal_max);
  }
  return slots;
}

// With what it takes to read the WAL.
Status examine_settings(Connection& connection, const std::vector<Facts>& slots, const Facts& needs,
                        Findings& findings) {
  auto settings = ask(connection, kSettingsSql, {}, needs);
  if (!settings) return fail(settings.error());
  Facts& facts = settings->front();
  const bool has_one = std::any_of(slots.begin(), slots.end(), [](const Facts& slot) {
    return slot.is("is_here") && slot.is("is_active");
  });
  facts.set("is_stuck", facts.is("is_required") && !has_one);
  findings.check(kWalSettings, facts);
  if (facts.is("is_required") && facts.number("version") >= 17)
    for (const Facts& slot : slots) findings.check({&kFailover, 1}, slot);
  return {};
}

}  // namespace

Status examine_wal(Connection& connection, const std::string& url, const DoctorOptions& options,
                   Findings& findings) {
  const auto slots = read_slots(connection, options);
  if (!slots) return fail(slots.error());
  for (const Facts& slot : *slots) findings.check(kSlot, slot);
  if (options.wal_readers.empty()) return {};

  Facts needs = needs_of(options);
  const std::string& conninfo =
      options.replication_conninfo.empty() ? url : options.replication_conninfo;
  Connection past_pooler;
  if (!options.replication_conninfo.empty()) {
    Result<Connection> opened = Connection::open(conninfo);
    if (!opened) {
      findings.add(kReplicationUrl, needs.set("error", opened.error().text));
      return {};
    }
    past_pooler = std::move(*opened);
    examine_transport(transport_of(past_pooler), "replication_url", findings);
  }
  const Result<std::optional<std::string>> why_not =
      why_not_streamed(past_pooler ? past_pooler : connection, kOutboxPublication);
  if (!why_not) return fail(why_not.error());
  if (*why_not) {
    findings.check(kUnreadable, needs.set("why", **why_not));
    return {};
  }
  DOVETAIL_TRY(examine_settings(connection, *slots, needs, findings));
  DOVETAIL_TRY(run(connection, {kWaiting}, needs, findings));
  return prove_wal(connection, conninfo, options, findings);
}

}  // namespace dovetail::postgres

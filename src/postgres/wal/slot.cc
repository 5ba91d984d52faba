#include "postgres/wal/slot.h"

#include <algorithm>
#include <array>

#include "core/event/sha256.h"
#include "host/host.h"

namespace dovetail::postgres {

namespace {

constexpr std::string_view kSlotPrefix = "dovetail_";
constexpr std::size_t kNameBytesMax = 32;  // of 63, besides the prefix and two numbers

// Reads columns from the row's JSON form, because older servers lack some of them.
constexpr std::string_view kFind =
    "SELECT s.slot_name::text, coalesce(s.database::text, ''), coalesce(s.plugin::text, ''), "
    "s.active, coalesce(s.active_pid, 0), s.temporary, "
    "coalesce((to_jsonb(s) ->> 'synced')::boolean, false), coalesce(s.wal_status, ''), "
    "coalesce(to_jsonb(s) ->> 'invalidation_reason', ''), "
    "coalesce(s.confirmed_flush_lsn - '0/0'::pg_lsn, 0)::bigint, "
    "greatest(coalesce(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() "
    "ELSE pg_current_wal_lsn() END - s.restart_lsn, 0), 0)::bigint, "
    "coalesce(s.safe_wal_size, -1), coalesce(s.restart_lsn - '0/0'::pg_lsn, 0)::bigint "
    "FROM pg_catalog.pg_replication_slots s "
    "WHERE CASE WHEN $2 THEN starts_with(s.slot_name::text, $1) ELSE s.slot_name = $1 END "
    "ORDER BY 1";

constexpr std::string_view kDrop =
    "SELECT pg_catalog.pg_drop_replication_slot(slot_name) "
    "FROM pg_catalog.pg_replication_slots WHERE slot_name = $1 AND NOT active";

// A new owner of the lane waits until the slot is dropped; its own slot is never dropped here.
constexpr std::string_view kDropIfHeld =
    "WITH held AS MATERIALIZED (SELECT lane FROM dovetail.relay_lane WHERE relay = $2 AND lane = "
    "$3 "
    "AND epoch = $4 FOR SHARE) SELECT pg_catalog.pg_drop_replication_slot(slot_name) "
    "FROM held, pg_catalog.pg_replication_slots WHERE slot_name = $1 AND NOT active";

// Locks of a prepared transaction belong to no process and show as 0.
constexpr std::string_view kHoldsUp =
    "SELECT holder, coalesce(a.application_name, ''), coalesce(a.state, ''), "
    "coalesce(extract(epoch FROM clock_timestamp() - a.xact_start)::bigint, -1) "
    "FROM unnest(pg_catalog.pg_blocking_pids($1)) AS holder "
    "LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = holder ORDER BY holder DESC LIMIT 1";

constexpr std::string_view kServer =
    "SELECT current_setting('wal_level'), current_setting('max_wal_senders')::int, "
    "session_user::text, r.rolsuper OR r.rolreplication OR EXISTS (SELECT FROM pg_catalog.pg_roles "
    "h WHERE h.rolname = 'rds_replication' AND pg_catalog.pg_has_role(h.oid, 'MEMBER')) "
    "FROM pg_catalog.pg_roles r WHERE r.rolname = session_user";

// Column lists and row filters exist since 15. Without a list nothing is left out; newer
// servers return the current columns of the publication, which may differ from this
// statement's snapshot. A partition published under its own name would not be
// recognised.
constexpr std::string_view kPublication =
    "SELECT p.pubinsert, count(t.tablename) > 0, "
    "coalesce(bool_or(to_jsonb(t) ->> 'rowfilter' IS NOT NULL), false), "
    "coalesce(bool_or(EXISTS (SELECT FROM pg_catalog.pg_publication_rel r WHERE r.prpubid = p.oid "
    "AND r.prrelid = c.oid AND to_jsonb(r) ->> 'prattrs' IS NOT NULL) "
    "AND jsonb_array_length(to_jsonb(t) -> 'attnames') < (SELECT count(*) FROM "
    "pg_catalog.pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped "
    "AND a.attgenerated = '')), false), "
    "coalesce(bool_or(c.relispartition AND NOT p.pubviaroot), false) "
    "FROM pg_catalog.pg_publication p "
    "LEFT JOIN pg_catalog.pg_publication_tables t ON t.pubname = p.pubname "
    "LEFT JOIN pg_catalog.pg_namespace n ON n.nspname = t.schemaname "
    "LEFT JOIN pg_catalog.pg_class c ON c.relname = t.tablename AND c.relnamespace = n.oid "
    "WHERE p.pubname = $1 GROUP BY p.oid, p.pubinsert";

// A snapshot made from the WAL ends at the last commit, but may begin later if all later
// transactions have ended without one. The server does not accept such a text.
constexpr std::string_view kImported =
    "SELECT CASE WHEN pg_snapshot_xmin(s) > pg_snapshot_xmax(s) "
    "THEN pg_snapshot_xmin(s)::text || ':' || pg_snapshot_xmin(s)::text || ':' ELSE s::text END "
    "FROM pg_current_snapshot() AS s";

SlotState read_slot(const Rows& rows, std::size_t row) {
  SlotState slot;
  slot.name = rows.text(row, 0);
  slot.database = rows.text(row, 1);
  slot.plugin = rows.text(row, 2);
  slot.active = rows.boolean(row, 3);
  slot.active_pid = rows.int4(row, 4);
  slot.temporary = rows.boolean(row, 5);
  slot.synced = rows.boolean(row, 6);
  slot.wal_status = rows.text(row, 7);
  slot.invalidation = rows.text(row, 8);
  slot.confirmed.value = static_cast<std::uint64_t>(rows.int8(row, 9));
  slot.retained_bytes = rows.int8(row, 10);
  slot.safe_bytes = rows.int8(row, 11);
  slot.kept_from.value = static_cast<std::uint64_t>(rows.int8(row, 12));
  return slot;
}

// Only the characters that a slot name may have.
std::string plain(std::string_view name) {
  std::string out(name.substr(0, kNameBytesMax));
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))) c = '_';
  }
  return out;
}

std::string found_wrong(std::string_view publication, const Rows& rows) {
  const std::string name = "the publication " + std::string(publication);
  if (!rows.boolean(0, 0))
    return name + " publishes no inserts; ALTER PUBLICATION ... SET (publish = 'insert')";
  if (!rows.boolean(0, 1)) return name + " has no table; ALTER PUBLICATION ... ADD TABLE ...";
  if (rows.boolean(0, 2)) return name + " has a filter for rows; make it again without one";
  if (rows.boolean(0, 3)) return name + " leaves out columns; make it again without a list of them";
  if (rows.boolean(0, 4))
    return name +
           " shows partitions by their own names; ALTER PUBLICATION ... SET "
           "(publish_via_partition_root = true)";
  return {};
}

}  // namespace

std::string slot_name(std::string_view relay, std::string_view database) {
  const std::string hash =
      to_hex(Sha256().add(relay).add(std::string_view("\0", 1)).add(database).finish());
  return std::string(kSlotPrefix) + plain(relay) + "_" + hash.substr(0, 8);
}

std::string temporary_slot_name(std::string_view relay, std::string_view database) {
  std::array<std::uint8_t, 4> bytes{};
  SystemEntropy().fill(bytes);
  return slot_name(relay, database) + "_" +
         to_hex({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

Result<std::optional<SlotState>> find_slot(Connection& connection, std::string_view name) {
  const Result<Rows> rows = connection.query(kFind, Params().text(name).boolean(false));
  if (!rows) return fail(rows.error());
  if (rows->empty()) return std::optional<SlotState>();
  return std::optional<SlotState>(read_slot(*rows, 0));
}

Result<std::vector<SlotState>> list_slots(Connection& connection) {
  const Result<Rows> rows = connection.query(kFind, Params().text(kSlotPrefix).boolean(true));
  if (!rows) return fail(rows.error());
  std::vector<SlotState> slots;
  for (std::size_t row = 0; row < rows->size(); ++row) slots.push_back(read_slot(*rows, row));
  return slots;
}

Status drop_slot(Connection& connection, std::string_view name, const LaneHeld& held) {
  Params params;
  params.text(name);
  if (held.epoch != kUnfenced)
    params.text(held.relay).int4(static_cast<std::int32_t>(held.lane)).int8(held.epoch);
  const Result<Rows> dropped =
      connection.query(held.epoch != kUnfenced ? kDropIfHeld : kDrop, params);
  if (dropped && dropped->size() == 1) return {};
  if (!connection) return fail(dropped.error());
  // Another process may have dropped it, or may use it now.
  const Result<std::optional<SlotState>> slot = find_slot(connection, name);
  if (!slot) return fail(slot.error());
  if (!*slot) return {};
  if ((*slot)->active)
    return fail(Errc::unavailable, "the slot " + std::string(name) + " is in use by the process " +
                                       std::to_string((*slot)->active_pid) +
                                       " of the server; stop what reads through it, or "
                                       "pg_terminate_backend() that process");
  if (!dropped) return fail(dropped.error());
  return fail(Errc::unavailable,
              "the slot " + std::string(name) + " was in use a moment ago" +
                  (held.epoch == kUnfenced ? "" : ", or another relay has taken the lane over") +
                  "; try again");
}

Result<std::optional<std::string>> who_holds_up(Connection& connection, std::int32_t backend) {
  const Result<Rows> rows = connection.query(kHoldsUp, Params().int4(backend));
  if (!rows) return fail(rows.error());
  if (rows->empty()) return std::optional<std::string>();
  if (rows->int4(0, 0) == 0)
    return std::optional<std::string>("a prepared transaction; look into pg_prepared_xacts");
  std::string text = "the transaction of process " + std::to_string(rows->int4(0, 0));
  std::string more(rows->text(0, 1));
  if (!rows->text(0, 2).empty()) more += (more.empty() ? "" : ", ") + std::string(rows->text(0, 2));
  if (rows->int8(0, 3) >= 0)
    more += (more.empty() ? "" : ", ") + std::string("open for ") +
            std::to_string(rows->int8(0, 3)) + " s";
  if (!more.empty()) text += " (" + more + ")";
  return std::optional<std::string>(std::move(text));
}

Result<std::string> import_snapshot(Connection& connection, const std::string& name) {
  const Result<Transaction> transaction =
      Transaction::begin(connection, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
  if (!transaction) return fail(transaction.error());
  DOVETAIL_TRY(connection.execute("SET TRANSACTION SNAPSHOT " + quoted_text(name)));
  const Result<Rows> rows = connection.query(kImported);
  if (!rows) return fail(rows.error());
  return std::string(rows->text(0, 0));
}

Result<bool> is_visible(Connection& connection, const std::string& snapshot) {
  const Result<Rows> rows = connection.query(
      "SELECT pg_snapshot_xmax(pg_current_snapshot()) >= pg_snapshot_xmax(s.shown) AND NOT EXISTS "
      "(SELECT FROM pg_snapshot_xip(pg_current_snapshot()) AS running "
      "WHERE pg_visible_in_snapshot(running, s.shown)) FROM (SELECT $1::text::pg_snapshot) AS s "
      "(shown)",
      Params().text(snapshot));
  if (!rows) return fail(rows.error());
  return rows->boolean(0, 0);
}

Result<std::optional<std::string>> why_not_streamed(Connection& connection,
                                                    std::string_view publication) {
  const Result<Rows> server = connection.query(kServer);
  if (!server) return fail(server.error());
  if (server->empty()) return std::optional<std::string>();
  if (server->text(0, 0) != "logical")
    return std::optional<std::string>("wal_level is " + std::string(server->text(0, 0)) +
                                      "; set wal_level = logical and restart the server");
  if (server->int4(0, 1) == 0)
    return std::optional<std::string>(
        "max_wal_senders is 0; set it to 10 or more and restart the server");
  if (!server->boolean(0, 3))
    return std::optional<std::string>("the role \"" + std::string(server->text(0, 2)) +
                                      "\" may not replicate; ALTER ROLE ... REPLICATION");
  if (publication.empty()) return std::optional<std::string>();
  const Result<Rows> found = connection.query(kPublication, Params().text(publication));
  if (!found) return fail(found.error());
  if (found->empty())
    return std::optional<std::string>("the publication " + std::string(publication) +
                                      " is not there; run `dovetail init` in this database");
  std::string wrong = found_wrong(publication, *found);
  if (wrong.empty()) return std::optional<std::string>();
  return std::optional<std::string>(std::move(wrong));
}

}  // namespace dovetail::postgres

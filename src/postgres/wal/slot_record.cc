#include "postgres/wal/slot_record.h"

#include <libpq-fe.h>

namespace dovetail::postgres {

namespace {

// A change writes a new version of a row, with the number of its transaction.
const std::string kMark =
    "(SELECT coalesce(string_agg(p.oid || '.' || p.xmin || coalesce('.' || r.oid || '.' || r.xmin, "
    "''), ',' ORDER BY r.oid), '') FROM pg_catalog.pg_publication p "
    "LEFT JOIN pg_catalog.pg_publication_rel r ON r.prpubid = p.oid WHERE p.pubname = $1)";

// Since 15 a publication can contain all tables of a schema. Then the table's schema matters,
// now and in between. The table's row type moves with it, and everyday changes of the table do
// not touch that. For other publications the text is unchanged, because readers have recorded
// it.
constexpr int kHasSchemas = 150000;
const std::string kMarkWithSchemas =
    "(" + kMark +
    " || (SELECT coalesce('/' || string_agg(n.oid || '.' || n.xmin, ',' ORDER BY n.oid) || "
    "coalesce((SELECT '/' || y.oid || '.' || y.xmin FROM pg_catalog.pg_class c "
    "JOIN pg_catalog.pg_type y ON y.oid = c.reltype WHERE c.oid = $2::int8::oid), ''), '') "
    "FROM pg_catalog.pg_publication p "
    "JOIN pg_catalog.pg_publication_namespace n ON n.pnpubid = p.oid WHERE p.pubname = $1))";

const std::string kIdentify = "SELECT c.system_identifier, " + kHistory +
                              ", current_database()::text FROM pg_catalog.pg_control_system() AS c";

constexpr std::string_view kLoad =
    "SELECT slot, split_part(slot_timeline, ' ', 1), split_part(slot_timeline, ' ', 2), "
    "(slot_reported - '0/0'::pg_lsn)::bigint, system_identifier "
    "FROM dovetail.relay_lane WHERE relay = $1 AND lane = $2";

// An UPDATE of the lane's row, if the lane is still ours.
std::string update(std::string_view set, std::string_view returning) {
  return "UPDATE dovetail.relay_lane SET " + std::string(set) +
         " WHERE relay = $1 AND lane = $2 AND (epoch = $3 OR $3 = -1) RETURNING " +
         std::string(returning);
}

const std::string kWriteSlot = update(
    "slot = $4, slot_timeline = $5 || ' ' || $6, slot_reported = $7::text::pg_lsn", kDurably);
const std::string kWriteReported = update("slot_reported = $4::text::pg_lsn", kDurably);

bool has_schemas(const Connection& connection) {
  return PQserverVersion(connection.get()) >= kHasSchemas;
}

Params of(const Reader& reader) {
  Params params;
  params.text(reader.relay).int4(static_cast<std::int32_t>(reader.lane));
  return params;
}

Status finish(const Reader& reader, const Result<Rows>& rows) {
  if (!rows) return fail(rows.error());
  if (rows->empty()) return fail(taken_over(reader));
  return {};
}

}  // namespace

Result<ServerIdentity> identify(Connection& connection) {
  const Result<Rows> rows = connection.query(kIdentify);
  if (!rows) return fail(rows.error());
  return ServerIdentity{rows->int8(0, 0), std::string(rows->text(0, 1)),
                        std::string(rows->text(0, 2))};
}

std::string publication_mark_sql(const Connection& connection) {
  return has_schemas(connection) ? kMarkWithSchemas : kMark;
}

Params publication_params(const Connection& connection, const Published& what) {
  Params params;
  params.text(what.publication);
  if (has_schemas(connection)) params.int8(what.table);
  return params;
}

Result<std::string> publication_mark(Connection& connection, const Published& what) {
  const Result<Rows> rows = connection.query("SELECT " + publication_mark_sql(connection),
                                             publication_params(connection, what));
  if (!rows) return fail(rows.error());
  return std::string(rows->text(0, 0));
}

Result<SlotRecord> load_slot_record(Reader& reader) {
  const Result<Rows> rows = reader.connection.query(kLoad, of(reader));
  if (!rows) return fail(rows.error());
  if (rows->empty())
    return fail(Errc::unavailable, "the row of relay \"" + reader.relay +
                                       "\" is gone; check who deletes from dovetail.relay_lane");
  SlotRecord record;
  record.slot = rows->text(0, 0);
  record.timeline = rows->text(0, 1);
  record.publication = rows->text(0, 2);
  record.reported.value = static_cast<std::uint64_t>(rows->int8(0, 3));
  record.system_identifier = rows->int8(0, 4);
  return record;
}

Status write_slot(Reader& reader, const SlotRecord& record) {
  const std::string reported = to_string(record.reported);
  return finish(reader, reader.connection.query(kWriteSlot, of(reader)
                                                                .int8(reader.epoch)
                                                                .text(record.slot)
                                                                .text(record.timeline)
                                                                .text(record.publication)
                                                                .text(reported)));
}

Status write_reported(Reader& reader, WalPosition reported) {
  const std::string position = to_string(reported);
  return finish(reader, reader.connection.query(kWriteReported,
                                                of(reader).int8(reader.epoch).text(position)));
}

}  // namespace dovetail::postgres

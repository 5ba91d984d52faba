// One lane of a relay, shared by its lease, its source and its parking.
#pragma once

#include <cstdint>
#include <string>

#include "core/operations.h"
#include "core/relay/lease.h"
#include "dovetail/result.h"
#include "postgres/connection/connection.h"
#include "sql/first_start.h"

namespace dovetail::postgres {

// The number of key buckets; a lane serves a contiguous range of them.
constexpr std::uint32_t kKeyBuckets = kLanesMax;

// SQL: the timeline of the server, as in dovetail.read_window(). It changes when a standby is
// promoted and after a restore.
inline const std::string kHistory =
    "CASE WHEN pg_is_in_recovery() THEN 'standby' "
    "ELSE left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) END";

// SQL: the server's run. The text changes at every start, and after a crash that the server
// recovers from by itself, which a connection behind a pooler may not notice. Null after a crash
// until someone calls server_run(). A snapshot is only valid in the run in which it was taken:
// after a crash the server may give the same transaction numbers again. What we read back from one
// of our tables has survived the crash and is valid in the next run, too. See
// docs/decisions/0014-a-snapshot-belongs-to-one-run.md.
inline const std::string kServerRun =
    "(SELECT " + kHistory +
    " || ' ' || (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint || ' ' || "
    "m.mark FROM dovetail.server_mark AS m)";

// One thread at a time: lease, source and parking of a lane run on the relay's thread and share its
// connection. It must outlive them.
struct Reader {
  std::string conninfo;
  std::string relay;  // names the progress; several relays may read one outbox
  std::uint32_t lane = 0;
  std::uint32_t lanes = 1;                 // of the relay; fixed by its first start
  SourceKind source = SourceKind::outbox;  // outbox, mapped, or broker
  std::string target{};                    // where its events go; empty: unknown
  std::int64_t epoch = kUnfenced;          // of the current lease
  // For connecting and for each statement: the relay's thread must renew its lease in time.
  Duration call_max = std::chrono::seconds(30);
  Connection connection{};
  std::uint64_t generation = 0;  // counts connections: each may reach another server

  std::int32_t first_bucket() const {
    return static_cast<std::int32_t>((kKeyBuckets * lane + lanes - 1) / lanes);
  }
  std::int32_t last_bucket() const {
    return static_cast<std::int32_t>((kKeyBuckets * (lane + 1) + lanes - 1) / lanes) - 1;
  }
};

// For a lane with that lease: a third of it, and at least what a busy server may take.
Duration call_max_of(Duration lease_term);

// Opens the connection if needed, checks that the server is no standby and has the schema, and that
// the lane has its row. unavailable: the server is a standby or unreachable.
Status connect(Reader& reader);

// start_relay() of src/sql on this connection.
Result<std::uint32_t> ensure_relay(Connection& connection, const FirstStart& start,
                                   const Carried* carried = nullptr);

Error taken_over(const Reader& reader);

// The server's run; sets the mark if it is missing after a crash.
Result<std::string> server_run(Connection& connection);
// The error for state of an earlier run of the server, which is not valid any more.
Error run_has_ended();
// Why a write of progress changed no row: stopped, or unavailable if the server is not in run `of`
// any more.
Error not_written(Reader& reader, std::string_view of);

// Reads the columns position, id, topic, aggregate_type, aggregate_id, type, content_type, headers,
// payload, aggregate_version, created_at. The event's views are valid as long as `rows`.
Event read_event(const Rows& rows, std::size_t row);

}  // namespace dovetail::postgres

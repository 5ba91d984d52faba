// One lane of a relay, as its lease, its source and its parking share it.
#pragma once

#include <cstdint>
#include <string>

#include "core/operations.h"
#include "core/relay/lease.h"
#include "dovetail/result.h"
#include "postgres/connection/connection.h"

namespace dovetail::postgres {

// Keys are spread over so many buckets; a lane serves a contiguous range of them.
constexpr std::uint32_t kKeyBuckets = 256;

// An expression: the timeline of the server, as dovetail.read_window() tells it. Another one means
// that a standby has taken over, or a restore.
inline const std::string kHistory =
    "CASE WHEN pg_is_in_recovery() THEN 'standby' "
    "ELSE left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) END";

// An expression: which run of the server this is. Another text after every start, and after a crash
// that the server recovers from by itself, which no connection behind a pooler need notice; null
// after a crash, until somebody asks for server_run(). What a snapshot shows means something only
// in the run in which it was taken: a crash lets the server give numbers of transactions twice.
// What was read back from a table of ours has outlived the crash, and is right in the next run,
// too. docs/decisions/0014-a-snapshot-belongs-to-one-run.md says why.
inline const std::string kServerRun =
    "(SELECT " + kHistory +
    " || ' ' || (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint || ' ' || "
    "m.mark FROM dovetail.server_mark AS m)";

// One thread at a time: lease, source and parking of a lane run in the thread of its relay, and
// share its connection. Outlives them.
struct Reader {
  std::string conninfo;
  std::string relay;  // names the progress; several relays may read one outbox
  std::uint32_t lane = 0;
  std::uint32_t lanes = 1;                 // of the relay; fixed at its first start
  SourceKind source = SourceKind::outbox;  // outbox, mapped, or broker
  std::string target{};            // where its events go, see bind_target(); empty: not said
  std::int64_t epoch = kUnfenced;  // of the lease, when there is one
  // Of connecting and of each statement: its relay's thread must come back to renew the lease.
  Duration call_max = std::chrono::seconds(30);
  Connection connection{};
  std::uint64_t generation = 0;  // counts connections: each may lead to another server

  std::int32_t first_bucket() const {
    return static_cast<std::int32_t>((kKeyBuckets * lane + lanes - 1) / lanes);
  }
  std::int32_t last_bucket() const {
    return static_cast<std::int32_t>((kKeyBuckets * (lane + 1) + lanes - 1) / lanes) - 1;
  }
};

// For a lane with such a lease: a third of it, and at least what a server may take that is busy.
Duration call_max_of(Duration lease_term);

// Opens the connection unless it is open; checks that the server is no standby and has the schema,
// and that the lane has its row. unavailable: the server is a standby, or not there.
Status connect(Reader& reader);

// Makes the rows of a relay at its first start; returns how many lanes it has, which may be another
// number than asked for when it was started before. rejected: it was started to read something
// else.
Result<std::uint32_t> ensure_relay(Connection& connection, const std::string& relay,
                                   std::uint32_t lanes, SourceKind source);

// Writes down at the first start where the events of a relay go, or, where it reads a broker, come
// from. rejected: it is another place than then: two processes would share the events of one name
// between two targets. An empty `target` says nothing.
Status bind_target(Connection& connection, const std::string& relay, const std::string& target);

Error taken_over(const Reader& reader);

// Which run of the server this is; marks it, if nobody has since it crashed.
Result<std::string> server_run(Connection& connection);
// What is known of another run of the server means nothing in this one.
Error run_has_ended();
// Why a write of progress or of a settled row found no row of ours to write: stopped, or
// unavailable when the server is not in the run `of` any more.
Error not_written(Reader& reader, std::string_view of);

// Reads the columns position, id, topic, aggregate_type, aggregate_id, type, content_type, headers,
// payload, aggregate_version, created_at. Its views end with `rows`.
Event read_event(const Rows& rows, std::size_t row);

}  // namespace dovetail::postgres

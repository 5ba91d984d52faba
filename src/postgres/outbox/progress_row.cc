#include "postgres/outbox/progress_row.h"

#include "core/relay/server_run.h"
#include "postgres/lane/rate_samples.h"

namespace dovetail::postgres {

namespace {

using namespace std::chrono_literals;

constexpr Duration kIdleWriteInterval = 5s;

const std::string kLoad =
    "SELECT r.window_start::text, coalesce(r.window_end::text, ''), r.window_seq, r.passed_seq, "
    "r.system_identifier, "
    "c.system_identifier, " +
    kServerRun +
    " FROM dovetail.relay_lane AS r, pg_control_system() AS c WHERE r.relay = $1 AND r.lane = $2";

const std::string kAdoptCluster =
    "UPDATE dovetail.relay_lane SET system_identifier = $3, window_start = $4::text::pg_snapshot, "
    "window_end = nullif($5, '')::pg_snapshot, window_seq = $6 WHERE relay = $1 AND lane = $2 "
    "AND system_identifier <> $3 AND (epoch = $7 OR $7 = -1) AND " +
    kServerRun + " = $8";

// The last condition: the snapshots belong to the current run of the server. A receipt is written
// only with its progress.
const std::string kWrite =
    "WITH moved AS (UPDATE dovetail.relay_lane SET window_start = $4::text::pg_snapshot, "
    "window_end = nullif($5, '')::pg_snapshot, window_seq = $6, passed_seq = greatest(passed_seq, "
    "$7), "
    "delivered_total = delivered_total + $8 - $9 - $11, parked_total = parked_total + $9, "
    "skipped_total = skipped_total + $11, " +
    kSampled + "WHERE relay = $1 AND lane = $2 AND (epoch = $3 OR $3 = -1) AND " + kServerRun +
    // Not worth an fsync; the setting ends with this transaction.
    " = $10 RETURNING split_part(owner, '@', 1) AS owner, set_config('synchronous_commit', 'off', "
    "true) AS is_lazy), noted AS "
    "(INSERT INTO dovetail.receipt (relay, owner, first_bucket, last_bucket, first_seq, last_seq, "
    "events, places) SELECT $1, owner, $12, $13, $14, $15, $16, $17 FROM moved WHERE $16 > 0) "
    "SELECT is_lazy FROM moved";

}  // namespace

Result<ProgressRow::Loaded> ProgressRow::load() {
  DOVETAIL_TRY(connect(reader_));
  const Result<std::string> run = server_run(reader_.connection);
  if (!run) return fail(run.error());
  generation_ = reader_.generation;
  write_idle_at_ = clock_.now() + kIdleWriteInterval;
  const auto lane = static_cast<std::int32_t>(reader_.lane);
  const Result<Rows> rows =
      reader_.connection.query(kLoad, Params().text(reader_.relay).int4(lane));
  if (!rows) return fail(rows.error());
  if (rows->empty())
    return fail(Errc::unavailable, "the row of relay \"" + reader_.relay +
                                       "\" is gone; check who deletes from dovetail.relay_lane");
  if (rows->is_null(0, 6)) return fail(run_has_ended());
  run_ = rows->text(0, 6);
  const std::int64_t stored = rows->int8(0, 4);
  const std::int64_t actual = rows->int8(0, 5);
  Loaded loaded;
  loaded.is_restored = stored != 0 && stored != actual;
  if (!loaded.is_restored)
    loaded.position = TablePosition{std::string(rows->text(0, 0)), std::string(rows->text(0, 1)),
                                    rows->int8(0, 2), rows->int8(0, 3)};
  if (stored == actual) return loaded;
  const Result<Rows> adopted =
      reader_.connection.query(kAdoptCluster, Params()
                                                  .text(reader_.relay)
                                                  .int4(lane)
                                                  .int8(actual)
                                                  .text(loaded.position.prev)
                                                  .text(loaded.position.now)
                                                  .int8(loaded.position.seq)
                                                  .int8(reader_.epoch)
                                                  .text(run_));
  if (!adopted) return fail(adopted.error());
  return loaded;
}

Status ProgressRow::check(std::string_view run) const {
  if (!is_same_run(run_, run)) return fail(run_has_ended());
  if (generation_ == reader_.generation && reader_.connection) return {};
  return fail(Errc::unavailable,
              "the connection was lost, or leads to another server now; what was read is read "
              "again; check for a failover");
}

Status ProgressRow::write(Progress& progress) {
  DOVETAIL_TRY(progress.count_streamed());
  if (!progress.has_news()) return {};
  DOVETAIL_TRY(check());
  const TablePosition& settled = progress.settled_to();
  const Receipt& receipt = progress.receipt();
  const Result<Rows> rows =
      reader_.connection.query(kWrite, Params()
                                           .text(reader_.relay)
                                           .int4(static_cast<std::int32_t>(reader_.lane))
                                           .int8(reader_.epoch)
                                           .text(settled.prev)
                                           .text(settled.now)
                                           .int8(settled.seq)
                                           .int8(settled.passed)
                                           .int8(progress.events())
                                           .int8(progress.parked())
                                           .text(run_)
                                           .int8(progress.skipped())
                                           .int4(reader_.first_bucket())
                                           .int4(reader_.last_bucket())
                                           .int8(receipt.first())
                                           .int8(receipt.last())
                                           .int8(static_cast<std::int64_t>(receipt.events()))
                                           .text(to_text(receipt.places())));
  if (!rows) return fail(rows.error());
  if (rows->empty()) return fail(not_written(reader_, run_));
  progress.written();
  write_idle_at_ = clock_.now() + kIdleWriteInterval;
  return {};
}

Status ProgressRow::write_if_idle(Progress& progress) {
  if (clock_.now() < write_idle_at_ || !progress.has_moved()) return {};
  return write(progress);
}

}  // namespace dovetail::postgres

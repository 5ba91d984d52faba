#include "postgres/wal/read_status.h"

namespace dovetail::postgres {

namespace {

constexpr std::string_view kWrite =
    "UPDATE dovetail.relay_lane SET reads_wal = $4, reads_why = $5, reads_since = "
    "clock_timestamp() "
    "WHERE relay = $1 AND lane = $2 AND (epoch = $3 OR $3 = -1) "
    "RETURNING set_config('synchronous_commit', 'off', true)";

}  // namespace

ReadStatus::ReadStatus(Reader& reader, RelayMetrics& metrics, const WalSourceOptions& options)
    : reader_(reader), metrics_(metrics), options_(options) {}

ReadStatus::~ReadStatus() { clear(); }

void ReadStatus::clear() {
  metrics_.streams = 0;
  metrics_.retained_wal_bytes = 0;
  options_.wal_settled({});
}

Status ReadStatus::open() {
  if (!streams_ && !why_.empty()) return write(false, why_);
  return write(false,
               options_.reading.mode == ReadMode::poll ? "mode is poll" : "begins with the table");
}

void ReadStatus::say(bool streams, std::string_view why) {
  if (streams) metrics_.streams = 1;
  if (!streams) clear();
  if (streams == streams_ && why == why_) return;
  streams_ = streams;
  why_ = why;
  options_.changed(streams, why);
  // If the lane is not ours any more, the next write of progress reports that.
  (void)write(streams, why);
}

Status ReadStatus::write(bool streams, std::string_view why) {
  const Result<Rows> rows =
      reader_.connection.query(kWrite, Params()
                                           .text(reader_.relay)
                                           .int4(static_cast<std::int32_t>(reader_.lane))
                                           .int8(reader_.epoch)
                                           .boolean(streams)
                                           .text(why));
  if (!rows) return fail(rows.error());
  return rows->empty() ? Status(fail(taken_over(reader_))) : Status();
}

}  // namespace dovetail::postgres

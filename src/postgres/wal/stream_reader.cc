#include "postgres/wal/stream_reader.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/event/sha256.h"
#include "host/host.h"

namespace dovetail::postgres {

namespace {

using namespace std::chrono_literals;

// A stream that ended sooner counts as a failure.
constexpr Duration kLasting = 30s;

std::string random_text() {
  std::array<std::uint8_t, 16> bytes{};
  SystemEntropy().fill(bytes);
  return to_hex({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

}  // namespace

void StreamReader::begin(Replication replication, std::optional<Snapshot> left_out) {
  stream_ = std::make_unique<WalStream>(std::move(replication), options_.make_rows(), progress_,
                                        clock_, WalStreamOptions{options_.replication_conninfo});
  stream_->leave_out(std::move(left_out));
  began_at_ = clock_.now();
  probe_.clear();
  awaited_ = {};
  moved_to_ = {};
  consider_at_ = {};
  is_leaving_ = false;
  behind_ = 0;
}

bool StreamReader::end() {
  const bool has_lasted = clock_.now() >= began_at_ + kLasting;
  stream_.reset();
  return has_lasted;
}

Status StreamReader::send_probe(Connection& connection) {
  probe_ = random_text();
  const Result<Rows> written = connection.query("SELECT pg_logical_emit_message(false, $1, $2)",
                                                Params().text(kProbePrefix).text(probe_));
  if (written) return {};
  if (!connection) return fail(written.error());
  probe_.clear();  // PUBLIC has no right to it any more: the WAL is read anyway
  return {};
}

// Only time in reads counts: the sink may block, or the process may be paused.
Status StreamReader::check_probe() {
  if (probe_.empty()) return {};
  if (stream_->last_probe() == probe_) {
    probe_.clear();
    options_.passing("probe seen");
    return {};
  }
  if (awaited_ < options_.probe_within) return {};
  return fail(Errc::corrupt,
              "what was written into the WAL did not come out of it in time; check the "
              "server's log");
}

Status StreamReader::read(Batch& out, Limits limits, Duration wait_max, std::stop_token stop) {
  const std::size_t before = out.size();
  limits.wait_max = std::max(std::min(limits.wait_max, wait_max), Duration{0});
  // We look for the end of a transaction.
  if (is_leaving_) limits.events_max = 1;
  const TimePoint began = clock_.now();
  const Status done = stream_->read(out, limits, std::move(stop));
  const bool has_read = out.size() > before;
  if (has_read || stream_->position() != moved_to_) {
    moved_to_ = stream_->position();
    awaited_ = {};
  } else {
    awaited_ += std::min(clock_.now() - began, limits.wait_max);
  }
  if (has_read && counts_numbers_) progress_.pass(out.events().back().position);
  if (has_read) options_.passing(is_inside_transaction() ? "inside a transaction" : "commit read");
  return done;
}

// Far behind, windows over the table are faster than the server's decoding, unless the sink is
// slow, or a transaction with many numbers has not committed.
Status StreamReader::consider_leaving(Connection& connection) {
  if (is_leaving_ || clock_.now() < consider_at_) return {};
  consider_at_ = clock_.now() + options_.safe_point_every;
  if (!stream_->was_drained()) return {};
  const Result<Rows> last = connection.query("SELECT last_value FROM dovetail.outbox_seq");
  if (!last) return fail(last.error());
  behind_ = last->int8(0, 0) - progress_.passed();
  is_leaving_ = progress_.passed() > 0 && behind_ >= options_.catch_up_events;
  return {};
}

}  // namespace dovetail::postgres

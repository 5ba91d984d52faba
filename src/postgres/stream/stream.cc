#include "postgres/stream/stream.h"

#include <algorithm>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "core/check.h"
#include "postgres/stream/buffer.h"
#include "postgres/stream/receiver.h"

namespace dovetail::postgres {

namespace {

using std::chrono::steady_clock;

// Skipped rows make no events, and read() must still return.
constexpr int kMessagesPerLook = 1024;
constexpr std::chrono::milliseconds kLeaveOutFor{100};
// The server sends the end of a transaction right after its last row, unless it waits for a
// processor. A complete transaction need not be read again. Counts looks instead of time, so that a
// machine that stands still uses up none.
constexpr int kLooksForEnd = 10'000;
constexpr std::chrono::microseconds kLookForEndEvery{200};

// Whether the message may give an event, or begins a transaction with some. After enough events,
// read() prefers to stop between two transactions.
bool leads_to_event(std::string_view message) {
  const char kind = kind_of(message);
  return kind == 'B' || kind == 'I';
}

}  // namespace

struct WalStream::State {
  State(Replication replication, std::unique_ptr<WalRows> made, Progress& counted, Clock& time,
        WalStreamOptions options)
      : rows(std::move(made)),
        progress(counted),
        clock(time),
        buffer(options.buffer_bytes_max),
        receiver(std::move(replication), time, buffer, std::move(options.conninfo),
                 options.status_every, options.silence_max) {}

  // Makes events from what has arrived, as far as they fit.
  Status take_arrived(Batch& out, const Limits& limits, const std::stop_token& stop);
  Status take(std::string_view message, Batch& out);
  Status take_row(const pgoutput::Insert& insert, Batch& out);
  void reach(WalPosition end);

  std::unique_ptr<WalRows> rows;
  Progress& progress;
  Clock& clock;
  std::optional<Snapshot> left_out{};
  std::vector<pgoutput::Value> values{};

  pgoutput::Begin transaction{};
  bool is_inside = false;
  bool is_left_out = false;  // the current transaction is skipped
  WalPosition position{};
  bool was_drained = false;
  std::string last_probe{};
  std::optional<Error> failed{};

  WalBuffer buffer;
  WalReceiver receiver;
};

void WalStream::State::reach(WalPosition end) {
  position = std::max(position, end);
  progress.reach(position);
}

Status WalStream::State::take(std::string_view message, Batch& out) {
  const auto parsed = parse_copy_data(message);
  if (!parsed) return fail(parsed.error());
  if (const auto* keepalive = std::get_if<Keepalive>(&*parsed)) {
    if (!is_inside) reach(keepalive->server_end);
    return {};
  }
  const auto decoded = pgoutput::decode(std::get<WalData>(*parsed).body, values);
  if (!decoded) return fail(decoded.error());
  if (const auto* insert = std::get_if<pgoutput::Insert>(&*decoded))
    return is_left_out ? Status() : take_row(*insert, out);
  if (const auto* begin = std::get_if<pgoutput::Begin>(&*decoded)) {
    transaction = *begin;
    is_inside = true;
    is_left_out = left_out && left_out->shows_short(begin->xid);
  } else if (const auto* commit = std::get_if<pgoutput::Commit>(&*decoded)) {
    is_inside = false;
    is_left_out = false;
    reach(commit->end);
  } else if (const auto* relation = std::get_if<pgoutput::Relation>(&*decoded)) {
    return rows->describe(*relation);
  } else if (const auto* written = std::get_if<pgoutput::Message>(&*decoded)) {
    if (written->prefix == kProbePrefix) last_probe = written->content;
  }
  return {};
}

Status WalStream::State::take_row(const pgoutput::Insert& insert, Batch& out) {
  const std::size_t before = out.size();
  const Status done = rows->append(insert.relation, values, transaction, out);
  progress.add(out.size() - before, transaction.xid);
  return done;
}

Status WalStream::State::take_arrived(Batch& out, const Limits& limits,
                                      const std::stop_token& stop) {
  const std::size_t before = out.size();
  const std::size_t events_max = std::max<std::size_t>(limits.events_max, 1);
  const auto start = steady_clock::now();
  for (int i = 1;; ++i) {
    const std::optional<std::string_view> message = buffer.front();
    if (!message) {
      was_drained = true;
      return {};
    }
    // Takes the end of a transaction with its last event: only then can it be reported.
    const std::size_t events = out.size() - before;
    if (events > 0 && leads_to_event(*message) &&
        (events >= events_max || out.bytes() + message->size() > limits.bytes_max))
      return {};
    DOVETAIL_TRY(take(*message, out));
    if (buffer.pop()) receiver.go_on();
    if (i % kMessagesPerLook == 0 &&
        (stop.stop_requested() || steady_clock::now() > start + kLeaveOutFor))
      return {};
  }
}

WalStream::WalStream(Replication replication, std::unique_ptr<WalRows> rows, Progress& progress,
                     Clock& clock, WalStreamOptions options)
    : state_(std::make_unique<State>(std::move(replication), std::move(rows), progress, clock,
                                     std::move(options))) {}
WalStream::~WalStream() = default;

Status WalStream::read(Batch& out, const Limits& limits, std::stop_token stop) {
  State& state = *state_;
  const std::size_t before = out.size();
  const auto end = steady_clock::now() + limits.wait_max;
  while (true) {
    if (state.failed) return fail(*state.failed);
    // Checked first: messages handed over before the end are still read.
    std::optional<Error> ended = state.buffer.ended();
    Status taken = state.take_arrived(out, limits, stop);
    if (!taken) state.failed = std::move(taken.error());
    if (out.size() > before) return {};  // the next call returns the error
    if (taken && ended && !state.buffer.front()) state.failed = std::move(ended);
    if (state.failed) continue;
    if (stop.stop_requested() || steady_clock::now() >= end) return {};
    (void)state.buffer.wait(end, stop);
  }
}

void WalStream::take_end() {
  State& state = *state_;
  int looks = kLooksForEnd;
  Batch none;
  while (state.is_inside && !state.failed) {
    const std::optional<std::string_view> message = state.buffer.front();
    if (message && leads_to_event(*message)) return;
    if (message) {
      Status taken = state.take(*message, none);
      if (!taken) state.failed = std::move(taken.error());
      if (state.buffer.pop()) state.receiver.go_on();
    } else if (state.buffer.ended() || --looks == 0) {
      return;
    } else {
      std::this_thread::sleep_for(kLookForEndEvery);
    }
  }
}

Status WalStream::check() const {
  if (state_->failed) return fail(*state_->failed);
  if (std::optional<Error> ended = state_->buffer.ended()) return fail(std::move(*ended));
  return {};
}

void WalStream::leave_out(std::optional<Snapshot> shown) { state_->left_out = std::move(shown); }

WalPosition WalStream::position() const { return state_->position; }
bool WalStream::is_inside_transaction() const { return state_->is_inside; }
WalPosition WalStream::server_end() const { return state_->receiver.server_end(); }
bool WalStream::was_drained() { return std::exchange(state_->was_drained, false); }

void WalStream::report(WalPosition flushed) {
  DOVETAIL_CHECK(flushed <= state_->progress.wal_settled_to());
  state_->receiver.report(flushed);
}

void WalStream::ask_for_sign() { state_->receiver.ask_for_sign(); }
WalPosition WalStream::reported() const { return state_->receiver.reported(); }
const std::string& WalStream::last_probe() const { return state_->last_probe; }

}  // namespace dovetail::postgres

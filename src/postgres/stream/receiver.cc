#include "postgres/stream/receiver.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>
#include <variant>
#include <vector>

#include "core/check.h"
#include "postgres/stream/pgoutput.h"

namespace dovetail::postgres {

namespace {

using std::chrono::steady_clock;

// How often to ask whether the server is stopping, while it may be waiting for us.
constexpr std::chrono::seconds kAskEvery{2};
// A stopping server asks again as soon as it has an answer.
constexpr std::chrono::milliseconds kRepliesApart{100};
// The server sends every message alone; to wake the reader for each would cost more than the
// reading. If wakes come more often than this on average, later messages are gathered. A short
// burst is not delayed.
constexpr std::chrono::microseconds kWakesApart{250};
constexpr std::chrono::microseconds kBurst{2000};
constexpr std::chrono::microseconds kGatherFor{100};
// 'w', two positions and a time precede the message itself.
constexpr std::size_t kHeadBytes = 25;
// Messages between two looks at the clock.
constexpr int kMessagesAtOnce = 4096;

bool has_hung_up(int socket) {
  pollfd look{socket, POLLRDHUP, 0};
  return ::poll(&look, 1, 0) > 0 && (look.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

}  // namespace

bool is_old(WallTime committed_at, WallTime sent_at) {
  return sent_at < committed_at || sent_at - committed_at > kAskEvery;
}

char kind_of(std::string_view message) {
  if (message.starts_with('w') && message.size() > kHeadBytes) return message[kHeadBytes];
  return message.starts_with('k') ? 'k' : '\0';
}

WalReceiver::WalReceiver(Replication replication, Clock& clock, WalBuffer& buffer,
                         std::string conninfo, Duration status_every, Duration silence_max)
    : replication_(std::move(replication)),
      clock_(clock),
      buffer_(buffer),
      conninfo_(std::move(conninfo)),
      status_every_(status_every),
      silence_max_(silence_max),
      bell_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  DOVETAIL_CHECK(bell_ >= 0);
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

WalReceiver::~WalReceiver() {
  thread_.request_stop();
  ring();
  thread_.join();
  ::close(bell_);
}

void WalReceiver::ring() const { (void)eventfd_write(bell_, 1); }

void WalReceiver::report(WalPosition flushed) {
  if (flushed <= reported()) return;
  flushed_ = flushed.value;
  ring();
}

void WalReceiver::ask_for_sign() {
  is_sign_wanted_ = true;
  ring();
}

void WalReceiver::run(std::stop_token stop) {
  Status status;
  while (status && !stop.stop_requested()) status = round();
  if (status && sent_flush_ < reported()) status = send_status();
  replication_.close();
  buffer_.end(status ? Error{Errc::stopped, "the WAL stream was closed; open it again"}
                     : std::move(status.error()));
}

Status WalReceiver::round() {
  gather();
  DOVETAIL_TRY(receive_all());
  DOVETAIL_TRY(answer());
  DOVETAIL_TRY(look_for_end());
  DOVETAIL_TRY(look_for_silence());
  wait();
  return {};
}

Status WalReceiver::receive_all() {
  is_full_ = !buffer_.has_room();
  // If we do not read, silence says nothing about the server.
  bool has_heard = is_full_;
  bool is_urgent = false;
  for (int i = 0; i < kMessagesAtOnce && !is_full_; ++i) {
    Result<CopyBytes> message = replication_.receive();
    if (!message) return fail(std::move(message.error()));
    if (message->size == 0) break;
    has_heard = true;
    look_at(message->view());
    // Ends of transactions wait until the reader asks for more.
    const char kind = kind_of(message->view());
    is_urgent |= kind == 'I' || kind == 'M' || kind == 'k';
    buffer_.put(std::move(*message));
    if (i % 64 == 63) is_full_ = !buffer_.has_room();
  }
  buffer_.hand_over(is_urgent);
  if (has_heard) heard_at_ = steady_clock::now();
  if (is_urgent) count_wake(heard_at_);
  return {};
}

void WalReceiver::look_at(std::string_view message) {
  const auto parsed = parse_copy_data(message);
  if (!parsed) return;  // the reader reports that
  WalPosition end;
  if (const auto* keepalive = std::get_if<Keepalive>(&*parsed)) {
    end = keepalive->server_end;
    is_reply_wanted_ |= keepalive->wants_reply;
    is_waited_for_ = keepalive->wants_reply && reported() < keepalive->server_end;
  } else if (const auto* data = std::get_if<WalData>(&*parsed)) {
    end = std::max(data->start, data->server_end);
    has_data_come_ = true;
    if (data->body.starts_with('B')) {
      std::vector<pgoutput::Value> none;
      const auto decoded = pgoutput::decode(data->body, none);
      if (decoded && std::holds_alternative<pgoutput::Begin>(*decoded))
        is_behind_ = is_old(std::get<pgoutput::Begin>(*decoded).committed_at, data->sent_at);
    }
  }
  if (end > server_end()) server_end_ = end.value;
}

Status WalReceiver::send_status() {
  const WalPosition flushed = reported();
  // While the server examines WAL of others, it says nothing until the end, and keeps all of it for
  // us.
  const bool is_silent =
      is_sign_wanted_.exchange(false) || steady_clock::now() >= heard_at_ + status_every_;
  DOVETAIL_TRY(replication_.send_status(server_end(), flushed, clock_.wall(), is_silent));
  sent_flush_ = flushed;
  is_reply_wanted_ = false;
  sent_at_ = steady_clock::now();
  // While we do not read, we do not see the server's requests either.
  status_at_ = sent_at_ + (is_full_ ? status_every_ / 4 : status_every_);
  return {};
}

Status WalReceiver::answer() {
  const Instant now = steady_clock::now();
  const bool is_wanted = is_reply_wanted_ && now >= sent_at_ + kRepliesApart;
  if (is_wanted || is_sign_wanted_ || sent_flush_ < reported() || now >= status_at_) {
    // libpq reports a failed send only when it reads, and a full buffer stops reading.
    if (is_full_ && has_hung_up(replication_.socket()))
      return fail(Errc::unavailable,
                  "the WAL stream is lost: the server closed the connection; check that it "
                  "runs");
    DOVETAIL_TRY(send_status());
  }
  const Result<bool> sent = replication_.send_rest();
  if (!sent) return fail(sent.error());
  is_rest_unsent_ = !*sent;
  return {};
}

// A stopping server sends everything and waits until we have confirmed it. What the sink cannot
// take soon must not delay it; the server cannot tell us that it is stopping.
Status WalReceiver::look_for_end() {
  const Instant now = steady_clock::now();
  if (now < ask_at_) return {};
  if (!is_full_ && !is_waited_for_ && !(has_data_come_ && is_behind_)) return {};
  is_waited_for_ = false;
  has_data_come_ = false;
  const bool is_stopping = replication_.is_server_stopping(conninfo_);
  ask_at_ = steady_clock::now() + kAskEvery;
  if (!is_stopping) return {};
  return fail(Errc::unavailable, "the server is shutting down; check that it starts again");
}

// A hanging server or a dead network does not end the connection. Events would wait forever
// although the table can be read.
Status WalReceiver::look_for_silence() {
  if (steady_clock::now() < heard_at_ + silence_max_) return {};
  return fail(Errc::unavailable,
              "the server is silent on the replication connection; check the "
              "network and the state of its walsender");
}

void WalReceiver::count_wake(Instant now) {
  woke_at_ = now;
  wakes_paid_until_ = std::clamp<Instant>(wakes_paid_until_, now - kBurst, now) + kWakesApart;
}

void WalReceiver::gather() const {
  const Instant now = steady_clock::now();
  const Instant until = woke_at_ + kGatherFor;
  if (now < wakes_paid_until_ && now < until) std::this_thread::sleep_until(until);
}

void WalReceiver::wait() {
  Instant until = status_at_;
  if (is_reply_wanted_) until = std::min(until, sent_at_ + kRepliesApart);
  if (is_full_ || is_waited_for_) until = std::min(until, ask_at_);
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - steady_clock::now());
  if (left.count() <= 0) return;
  std::array<pollfd, 2> waited{};
  waited[0] = {bell_, POLLIN, 0};
  // If there is no room, bytes in the socket must not wake us.
  const int events = (is_full_ ? 0 : POLLIN) | (is_rest_unsent_ ? POLLOUT : 0);
  waited[1] = {events == 0 ? -1 : replication_.socket(), static_cast<short>(events), 0};
  (void)::poll(waited.data(), waited.size(), static_cast<int>(left.count()));
  if ((waited[0].revents & POLLIN) != 0) {
    eventfd_t rings = 0;
    (void)eventfd_read(bell_, &rings);
  }
}

}  // namespace dovetail::postgres

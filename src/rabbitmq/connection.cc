#include "rabbitmq/connection.h"

#include <amqp.h>
#include <amqp_framing.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <utility>

#include "core/check.h"
#include "rabbitmq/protocol/frames.h"

namespace dovetail::rabbitmq {

namespace {

constexpr std::size_t kInputBytes = 128 << 10;
constexpr std::size_t kSecretBytesMax = 4096;
constexpr std::uint32_t kFrameBytesMax = 131'072;
constexpr std::string_view kLost = "the connection to RabbitMQ was lost; check the server's log";
// rabbitmq-c reports the protocol header of a server with another version as this frame type.
constexpr std::uint8_t kForeignHeader = 'A';
constexpr std::string_view kProtocolHeader("AMQP\0\0\x09\x01", 8);

amqp_table_entry_t entry(const char* name, const char* value) {
  amqp_table_entry_t made{};
  made.key = amqp_cstring_bytes(name);
  made.value.kind = AMQP_FIELD_KIND_UTF8;
  made.value.value.bytes = amqp_cstring_bytes(value);
  return made;
}

amqp_table_entry_t capability(const char* name) {
  amqp_table_entry_t made{};
  made.key = amqp_cstring_bytes(name);
  made.value.kind = AMQP_FIELD_KIND_BOOLEAN;
  made.value.value.boolean = 1;
  return made;
}

// Why the server closed the connection, and what to check.
std::string closed_text(int code, std::string_view text) {
  std::string what = "RabbitMQ closed the connection: " + std::string(text) + " (" +
                     std::to_string(code) + "); check ";
  if (code == AMQP_ACCESS_REFUSED) return what + "user, password and the user's permissions";
  if (code == AMQP_NOT_ALLOWED)
    return what + "that the virtual host exists and that the user may use it";
  return what + "the server's log";
}

bool is_method(const amqp_frame_t& frame, std::uint32_t method) {
  return frame.frame_type == AMQP_FRAME_METHOD && frame.payload.method.id == method;
}

}  // namespace

const void* method_bytes(const amqp_frame_t& frame) { return frame.payload.method.decoded; }

void Connection::destroy(amqp_connection_state_t_* state) { amqp_destroy_connection(state); }

Connection::Connection(const Options& options, Clock& clock, Handler handler)
    : options_(options), clock_(clock), handler_(std::move(handler)), input_(kInputBytes) {}

Connection::~Connection() = default;

Result<std::unique_ptr<Connection>> Connection::open(const Options& options, std::string_view role,
                                                     Clock& clock, Handler handler) {
  std::unique_ptr<Connection> made(new Connection(options, clock, std::move(handler)));
  made->state_.reset(amqp_new_connection());
  DOVETAIL_CHECK(made->state_ != nullptr);
  Result<net::Stream> stream = net::Stream::connect(options.server(), options.connect_timeout);
  if (!stream) return fail(std::move(stream.error()));
  made->stream_ = std::move(*stream);
  if (options.tls) DOVETAIL_TRY(made->stream_.start_tls(options, options.connect_timeout));
  DOVETAIL_TRY(made->greet(role));
  made->start_heartbeats();
  return made;
}

Status Connection::greet(std::string_view role) {
  heard_at_ = wrote_at_ = clock_.now();
  output_ = kProtocolHeader;
  DOVETAIL_TRY(
      await(0, AMQP_CONNECTION_START_METHOD, "connection.start", options_.connect_timeout));
  DOVETAIL_TRY(log_in(role));
  DOVETAIL_TRY(tune());
  amqp_connection_open_t open{};
  open.virtual_host = as_bytes(options_.virtual_host);
  send(0, AMQP_CONNECTION_OPEN_METHOD, &open);
  return await(0, AMQP_CONNECTION_OPEN_OK_METHOD, "the virtual host", options_.connect_timeout);
}

Status Connection::log_in(std::string_view role) {
  const bool external = options_.user.empty() && !options_.cert_file.empty();
  const std::string_view mechanism = external ? "EXTERNAL" : "PLAIN";
  if (mechanisms_.find(mechanism) == std::string::npos)
    return fail(Errc::unavailable, "RabbitMQ does not offer the login mechanism " +
                                       std::string(mechanism) + ", only: " + mechanisms_ +
                                       "; check its setting auth_mechanisms");
  if (options_.user.size() + options_.password.size() > kSecretBytesMax ||
      options_.virtual_host.size() > kShortStringMax)
    return fail(Errc::rejected, "user, password or virtual host is too long; check them");

  const std::string name = options_.connection_name + " " + std::string(role);
  std::array<amqp_table_entry_t, 5> capabilities{
      capability("publisher_confirms"), capability("basic.nack"),
      capability("consumer_cancel_notify"), capability("connection.blocked"),
      capability("authentication_failure_close")};
  std::array<amqp_table_entry_t, 3> properties{entry("product", "dovetail"),
                                               entry("connection_name", name.c_str())};
  properties[2].key = amqp_cstring_bytes("capabilities");
  properties[2].value.kind = AMQP_FIELD_KIND_TABLE;
  properties[2].value.value.table = {static_cast<int>(capabilities.size()), capabilities.data()};

  std::string secret;
  if (!external) secret = std::string(1, '\0') + options_.user + '\0' + options_.password;
  amqp_connection_start_ok_t start{};
  start.client_properties = {static_cast<int>(properties.size()), properties.data()};
  start.mechanism = as_bytes(mechanism);
  start.response = as_bytes(secret);
  start.locale = amqp_cstring_bytes("en_US");
  send(0, AMQP_CONNECTION_START_OK_METHOD, &start);
  return await(0, AMQP_CONNECTION_TUNE_METHOD, "the login", options_.connect_timeout);
}

Status Connection::tune() {
  const auto wanted = static_cast<std::uint16_t>(std::clamp<std::int64_t>(
      std::chrono::duration_cast<std::chrono::seconds>(options_.heartbeat).count(), 0, 3600));
  amqp_connection_tune_ok_t tuned{};
  tuned.channel_max = 8;
  tuned.frame_max =
      server_frame_max_ == 0 ? kFrameBytesMax : std::min(server_frame_max_, kFrameBytesMax);
  // Zero means no limit, on either side.
  tuned.heartbeat = server_heartbeat_ == 0 || wanted == 0 ? std::max(server_heartbeat_, wanted)
                                                          : std::min(server_heartbeat_, wanted);
  frame_bytes_max_ = tuned.frame_max;
  heartbeat_ = std::chrono::seconds(tuned.heartbeat);
  if (amqp_tune_connection(state_.get(), tuned.channel_max, static_cast<int>(tuned.frame_max),
                           tuned.heartbeat) != AMQP_STATUS_OK)
    return fail(Errc::unavailable,
                "rabbitmq-c rejects the server's limits; check the server's frame_max");
  send(0, AMQP_CONNECTION_TUNE_OK_METHOD, &tuned);
  return {};
}

Status Connection::await(std::uint16_t channel, std::uint32_t reply, std::string_view what,
                         Duration timeout) {
  waiting_ = Waiting{channel, reply};
  const TimePoint deadline = clock_.now() + timeout;
  while (!waiting_->answer) {
    const Duration left = deadline - clock_.now();
    if (left <= Duration{0}) {
      waiting_.reset();
      return fail(Errc::unavailable, "RabbitMQ did not answer in time (" + std::string(what) +
                                         "); check that the server runs, the port and TLS");
    }
    if (Status pumped = pump(left); !pumped) {
      waiting_.reset();
      return pumped;
    }
  }
  return {};
}

Result<Answer> Connection::call(std::uint16_t channel, std::uint32_t method, void* arguments,
                                std::uint32_t reply) {
  send(channel, method, arguments);
  DOVETAIL_TRY(await(channel, reply, amqp_method_name(method), options_.request_timeout));
  Answer answer = std::move(*waiting_->answer);
  waiting_.reset();
  return answer;
}

Status Connection::open_channel(std::uint16_t channel) {
  amqp_channel_open_t open{};
  const Result<Answer> answer =
      call(channel, AMQP_CHANNEL_OPEN_METHOD, &open, AMQP_CHANNEL_OPEN_OK_METHOD);
  if (!answer) return fail(answer.error());
  if (answer->refused != 0)
    return fail(Errc::unavailable, "RabbitMQ refused to open a channel: " + answer->text);
  return {};
}

void Connection::close(Duration timeout) {
  closing_ = true;
  amqp_connection_close_t goodbye{};
  goodbye.reply_code = AMQP_REPLY_SUCCESS;
  send(0, AMQP_CONNECTION_CLOSE_METHOD, &goodbye);
  (void)await(0, AMQP_CONNECTION_CLOSE_OK_METHOD, "the end", timeout);
  waiting_.reset();
}

void Connection::send(std::uint16_t channel, std::uint32_t method, void* arguments) {
  const std::lock_guard lock(mutex_);
  append_method(output_, channel, method, arguments);
}

void Connection::send(std::string& frames) {
  const std::lock_guard lock(mutex_);
  if (output_.empty())
    output_.swap(frames);
  else
    output_ += frames;
  frames.clear();
}

std::size_t Connection::unsent() const {
  const std::lock_guard lock(mutex_);
  return output_.size() - written_;
}

Status Connection::push() {
  const std::lock_guard lock(mutex_);
  if (!stream_.is_open()) return fail(Errc::unavailable, std::string(kLost));
  return write_some();
}

Duration Connection::blocked_for() const {
  return blocked_since_ ? clock_.now() - *blocked_since_ : Duration{0};
}

Status Connection::write_some() {
  while (written_ < output_.size()) {
    const Result<std::size_t> sent = stream_.write_some(std::string_view(output_).substr(written_));
    if (!sent) return fail(sent.error());
    if (*sent == 0) return {};
    written_ += *sent;
    wrote_at_ = clock_.now();
  }
  output_.clear();
  written_ = 0;
  return {};
}

void Connection::beat() {
  if (heartbeat_ > Duration{0} && written_ == output_.size() &&
      clock_.now() - wrote_at_ >= heartbeat_ / 3)
    append_heartbeat(output_);
}

// Reads and writes what is possible without waiting. True: something was read.
Result<bool> Connection::exchange_some() {
  if (!stream_.is_open()) return fail(Errc::unavailable, std::string(kLost));
  // Read first: the server may say why it accepts no more.
  const Result<std::size_t> got = stream_.read_some(input_);
  if (!got) return fail(got.error());
  if (*got > 0) {
    heard_at_ = clock_.now();
    DOVETAIL_TRY(take(std::string_view(input_.data(), *got)));
  }
  DOVETAIL_TRY(write_some());
  return *got > 0;
}

Status Connection::pump(Duration timeout) {
  const std::lock_guard lock(mutex_);
  beat();
  Result<bool> heard = exchange_some();
  if (heard && !*heard && timeout > Duration{0}) {
    const Duration longest = heartbeat_ > Duration{0} ? std::min(timeout, heartbeat_ / 4) : timeout;
    DOVETAIL_TRY(stream_.wait(written_ < output_.size(), longest));
    heard = exchange_some();
  }
  // Reads everything that has arrived, so that one wait serves many frames.
  for (int rounds = 0; heard && *heard && rounds < 16; ++rounds) heard = exchange_some();
  if (!heard) return fail(heard.error());
  if (heartbeat_ > Duration{0} && clock_.now() - heard_at_ > 2 * heartbeat_)
    return fail(Errc::unavailable,
                "RabbitMQ missed two heartbeats; check the server and the network");
  return {};
}

Status Connection::take(std::string_view bytes) {
  while (!bytes.empty()) {
    const Result<std::string_view> safe = guard_.next(bytes);
    if (!safe) return fail(safe.error());
    DOVETAIL_TRY(decode(*safe));
  }
  return {};
}

Status Connection::decode(std::string_view bytes) {
  while (!bytes.empty()) {
    amqp_frame_t frame{};
    const int consumed = amqp_handle_input(state_.get(), as_bytes(bytes), &frame);
    if (consumed < 0)
      return fail(Errc::unavailable, std::string("the server does not speak AMQP: ") +
                                         amqp_error_string2(consumed) +
                                         "; check the port, and whether it expects TLS");
    bytes.remove_prefix(static_cast<std::size_t>(consumed));
    if (frame.frame_type == 0) continue;
    const Status status = dispatch(frame);
    // Stops between two frames; the end of the bytes read may be in the middle of one.
    amqp_maybe_release_buffers_on_channel(state_.get(), frame.channel);
    if (!status) return status;
  }
  return {};
}

bool Connection::is_awaited(const amqp_frame_t_& frame) {
  if (!waiting_ || waiting_->answer || frame.channel != waiting_->channel) return false;
  if (is_method(frame, AMQP_CHANNEL_CLOSE_METHOD)) {
    const auto& close = method_of<amqp_channel_close_t>(frame);
    waiting_->answer = Answer{close.reply_code, std::string(as_view(close.reply_text))};
    amqp_channel_close_ok_t done{};
    send(frame.channel, AMQP_CHANNEL_CLOSE_OK_METHOD, &done);
    return true;
  }
  if (!is_method(frame, waiting_->reply)) return false;
  waiting_->answer = Answer{};
  if (waiting_->reply == AMQP_QUEUE_DECLARE_OK_METHOD) {
    const auto& declared = method_of<amqp_queue_declare_ok_t>(frame);
    waiting_->answer->messages = declared.message_count;
    waiting_->answer->consumers = declared.consumer_count;
  }
  return true;
}

Status Connection::dispatch(const amqp_frame_t_& frame) {
  if (frame.frame_type == kForeignHeader)
    return fail(Errc::unavailable,
                "the server does not speak AMQP 0-9-1; check that it is RabbitMQ");
  if (frame.frame_type == AMQP_FRAME_HEARTBEAT) return {};
  if (frame.channel == 0) return dispatch_control(frame);
  if (is_awaited(frame) || closing_) return {};
  return handler_(frame);
}

Status Connection::dispatch_control(const amqp_frame_t_& frame) {
  if (frame.frame_type != AMQP_FRAME_METHOD) return {};
  switch (frame.payload.method.id) {
    case AMQP_CONNECTION_START_METHOD:
      mechanisms_ = as_view(method_of<amqp_connection_start_t>(frame).mechanisms);
      break;
    case AMQP_CONNECTION_TUNE_METHOD:
      server_frame_max_ = method_of<amqp_connection_tune_t>(frame).frame_max;
      server_heartbeat_ = method_of<amqp_connection_tune_t>(frame).heartbeat;
      break;
    case AMQP_CONNECTION_BLOCKED_METHOD:
      blocked_since_ = clock_.now();
      blocked_reason_ = as_view(method_of<amqp_connection_blocked_t>(frame).reason);
      break;
    case AMQP_CONNECTION_UNBLOCKED_METHOD:
      blocked_since_.reset();
      break;
    case AMQP_CONNECTION_CLOSE_METHOD: {
      const auto& close = method_of<amqp_connection_close_t>(frame);
      return fail(Errc::unavailable, closed_text(close.reply_code, as_view(close.reply_text)));
    }
    default:
      break;
  }
  (void)is_awaited(frame);
  return {};
}

void Connection::start_heartbeats() {
  if (heartbeat_ == Duration{0}) return;
  heart_ = std::jthread([this](const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any condition;
    std::unique_lock sleeping(mutex);
    while (!stop.stop_requested()) {
      condition.wait_for(sleeping, stop, heartbeat_ / 4, [] { return false; });
      if (stop.stop_requested()) return;
      const std::unique_lock lock(mutex_, std::try_to_lock);
      if (!lock || !stream_.is_open()) continue;
      beat();
      // The next call on the connection reports an error.
      (void)write_some();
    }
  });
}

Result<Answer> declare_queue(Connection& connection, std::uint16_t channel, std::string_view queue,
                             const std::string& queue_type) {
  std::array<amqp_table_entry_t, 2> arguments{entry("x-queue-type", queue_type.c_str())};
  arguments[1].key = amqp_cstring_bytes("x-single-active-consumer");
  arguments[1].value.kind = AMQP_FIELD_KIND_BOOLEAN;
  arguments[1].value.value.boolean = 1;
  amqp_queue_declare_t declare{};
  declare.queue = as_bytes(queue);
  declare.durable = 1;
  declare.arguments = {queue_type == "quorum" ? 2 : 1, arguments.data()};
  return connection.call(channel, AMQP_QUEUE_DECLARE_METHOD, &declare,
                         AMQP_QUEUE_DECLARE_OK_METHOD);
}

}  // namespace dovetail::rabbitmq

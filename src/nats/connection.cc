#include "nats/connection.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <span>
#include <utility>

#include "core/message/json.h"
#include "host/host.h"

namespace dovetail::nats {

namespace {

constexpr std::size_t kReadSize = 64 << 10;

class Deadline {
 public:
  explicit Deadline(Duration timeout) : end_(system_clock().now() + timeout) {}
  Duration left() const { return std::max(Duration{0}, end_ - system_clock().now()); }
  bool has_passed() const { return system_clock().now() >= end_; }

 private:
  TimePoint end_;
};

std::string connect_line(const ConnectionOptions& options) {
  std::string line = R"(CONNECT {"verbose":false,"pedantic":false,"headers":true,)"
                     R"("no_responders":true,"protocol":1,"lang":"c++","version":"dovetail",)";
  line += "\"name\":" + json_text(options.name);
  line += options.tls ? ",\"tls_required\":true" : ",\"tls_required\":false";
  if (!options.user.empty()) {
    line += ",\"user\":" + json_text(options.user);
    line += ",\"pass\":" + json_text(options.password);
  }
  if (!options.token.empty()) line += ",\"auth_token\":" + json_text(options.token);
  return line + "}\r\n";
}

bool mentions(std::string_view text, std::string_view what) {
  return std::search(text.begin(), text.end(), what.begin(), what.end(), [](char a, char b) {
           const auto lower = [](char c) {
             return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
           };
           return lower(a) == lower(b);
         }) != text.end();
}

// Errors after which the server keeps the connection open.
bool is_harmless(std::string_view error_text) {
  return mentions(error_text, "permissions violation") || mentions(error_text, "invalid subject") ||
         mentions(error_text, "invalid publish subject");
}

}  // namespace

Result<Connection> Connection::open(const ConnectionOptions& options, std::size_t first) {
  if (options.servers.empty())
    return fail(Errc::rejected, "the NATS url names no server; check it");
  Error last{Errc::unavailable, ""};
  for (std::size_t i = 0; i < options.servers.size(); ++i) {
    const net::Endpoint& endpoint = options.servers[(first + i) % options.servers.size()];
    Result<net::Stream> stream = net::Stream::connect(endpoint, options.connect_timeout);
    if (!stream) {
      last = stream.error();
      continue;
    }
    Connection connection;
    connection.stream_ = std::move(*stream);
    connection.endpoint_ = endpoint;
    const Status ready = connection.log_in(options);
    if (ready) return connection;
    last = ready.error();
  }
  return fail(last);
}

Status Connection::log_in(const ConnectionOptions& options) {
  DOVETAIL_TRY(take_info(options));
  if (options.tls) DOVETAIL_TRY(stream_.start_tls(options, options.connect_timeout));
  inbox_ = options.inbox_prefix + "." + new_event_id().to_string() + ".";
  out_ += connect_line(options);
  subscribe(inbox_ + ">", inbox_subscription());
  ping();
  return wait_for_pong(options.connect_timeout);
}

// The server's INFO comes first, before TLS starts.
Status Connection::take_info(const ConnectionOptions& options) {
  const Deadline deadline(options.connect_timeout);
  Frame frame;
  std::size_t size = 0;
  while (size == 0) {
    const Result<std::size_t> parsed = parse_frame(std::string_view(in_).substr(0, filled_), frame);
    if (!parsed) return fail(parsed.error());
    size = *parsed;
    if (size > 0) break;
    if (deadline.has_passed())
      return fail(Errc::unavailable,
                  endpoint_.to_string() +
                      " is not a NATS server; check the address, and that the port does not "
                      "expect TLS from the first byte");
    DOVETAIL_TRY(stream_.wait(false, deadline.left()));
    if (const Result<bool> got = read(); !got) return fail(got.error());
  }
  if (frame.kind == Frame::Kind::error) return refused(frame.text);
  const Json info = Json::parse(frame.text);
  if (frame.kind != Frame::Kind::info || !info.is_there())
    return fail(Errc::unavailable,
                endpoint_.to_string() + " is not a NATS server; check the address");
  server_.version = info.get("version").text();
  server_.cluster = info.get("cluster").text();
  server_.max_payload = static_cast<std::size_t>(
      std::max<std::int64_t>(0, info.get("max_payload").number_or(1 << 20)));
  server_.jetstream = info.get("jetstream").is_true();
  if (!info.get("headers").is_true())
    return fail(Errc::rejected,
                "the NATS server " + server_.version +
                    " does not support headers; use 2.2 or newer and allow headers");
  const bool wants_tls = info.get("tls_required").is_true();
  const bool has_tls = wants_tls || info.get("tls_available").is_true();
  if (wants_tls && !options.tls)
    return fail(Errc::unavailable,
                "the NATS server requires TLS; use a url that begins with nats+tls");
  if (options.tls && !has_tls)
    return fail(
        Errc::unavailable,
        "the NATS server does not offer TLS, which the url requires; check the server's settings");
  // Plain bytes after INFO must not be mistaken for bytes that came over TLS.
  if (options.tls && size != filled_)
    return fail(
        Errc::unavailable,
        "plain bytes arrived before TLS started; check the network for a man in the middle");
  parsed_ = size;
  return {};
}

Status Connection::wait_for_pong(Duration timeout) {
  const Deadline deadline(timeout);
  std::string refusal;
  const Handler handler = [&](const Frame& frame) {
    if (frame.kind == Frame::Kind::error) refusal = frame.text;
  };
  const std::uint64_t before = pongs_;
  while (pongs_ == before) {
    if (deadline.has_passed())
      return fail(Errc::unavailable, "the NATS server at " + endpoint_.to_string() +
                                         " does not answer; check its log and load");
    DOVETAIL_TRY(pump(deadline.left(), handler));
  }
  if (!refusal.empty())
    return fail(Errc::unavailable, "the NATS server refused the subscription: " + refusal +
                                       "; check the user's permissions or inbox_prefix");
  return {};
}

void Connection::subscribe(std::string_view subject, std::uint64_t number) {
  out_ += "SUB ";
  out_ += subject;
  out_ += ' ';
  out_ += std::to_string(number);
  out_ += "\r\n";
}

Status Connection::write() {
  while (written_ < out_.size()) {
    const Result<std::size_t> sent = stream_.write_some(std::string_view(out_).substr(written_));
    if (!sent) return fail(sent.error());
    if (*sent == 0) return {};
    written_ += *sent;
  }
  out_.clear();
  written_ = 0;
  return {};
}

Result<bool> Connection::read() {
  if (parsed_ > 0) {
    std::memmove(in_.data(), in_.data() + parsed_, filled_ - parsed_);
    filled_ -= std::exchange(parsed_, 0);
  }
  // Doubles while a long message arrives, to need few steps.
  const std::size_t room = std::max(kReadSize, filled_);
  if (in_.size() < filled_ + room) in_.resize(filled_ + room);
  const Result<std::size_t> got = stream_.read_some(std::span(in_).subspan(filled_, room));
  if (!got) return fail(got.error());
  filled_ += *got;
  return *got > 0;
}

Result<bool> Connection::handle_buffered(const Handler& handler) {
  bool any = false;
  while (true) {
    Frame frame;
    const Result<std::size_t> size =
        parse_frame(std::string_view(in_).substr(parsed_, filled_ - parsed_), frame);
    if (!size) return fail(size.error());
    if (*size == 0) return any;
    parsed_ += *size;
    any = true;
    switch (frame.kind) {
      case Frame::Kind::ping:
        out_ += "PONG\r\n";
        break;
      case Frame::Kind::pong:
        ++pongs_;
        break;
      case Frame::Kind::message:
        handler(frame);
        break;
      case Frame::Kind::error:
        if (!is_harmless(frame.text)) return fail(refused(frame.text).error());
        handler(frame);
        break;
      case Frame::Kind::info:
      case Frame::Kind::ok:
        break;
    }
  }
}

Status Connection::pump(Duration timeout, const Handler& handler) {
  if (!stream_.is_open())
    return fail(Errc::unavailable, "not connected to the NATS server; call open() first");
  const Deadline deadline(timeout);
  while (true) {
    const Result<bool> handled = handle_buffered(handler);
    if (!handled) return fail(handled.error());
    DOVETAIL_TRY(write());
    const Result<bool> got = read();
    if (!got) return fail(got.error());
    if (*got) {
      const Result<bool> more = handle_buffered(handler);
      if (!more) return fail(more.error());
      DOVETAIL_TRY(write());
      if (*more) return {};
      continue;
    }
    if (*handled || timeout == Duration{0} || deadline.has_passed()) return {};
    timeout = Duration{0};  // a single wait, so that wake() ends it
    DOVETAIL_TRY(stream_.wait(unwritten() > 0, deadline.left()));
  }
}

Status Connection::refused(std::string_view error_text) {
  close();
  std::string hint = "check the server's log";
  if (mentions(error_text, "authorization") || mentions(error_text, "authentication"))
    hint = "check user and password, or token";
  if (mentions(error_text, "timeout")) hint = "check the load of the server and the network";
  if (mentions(error_text, "maximum payload")) hint = "check the server's max_payload";
  if (mentions(error_text, "maximum connections")) hint = "check the server's max_connections";
  if (mentions(error_text, "secure connection")) hint = "use a url that begins with nats+tls";
  return fail(Errc::unavailable, "the NATS server at " + endpoint_.to_string() +
                                     " reports: " + std::string(error_text) + "; " + hint);
}

}  // namespace dovetail::nats

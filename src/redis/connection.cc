#include "redis/connection.h"

#include <hiredis/hiredis.h>

#include <charconv>
#include <utility>

#include "redis/errors.h"

namespace dovetail::redis {

namespace {

constexpr std::size_t kReadBytes = 64 << 10;
constexpr std::size_t kReaderBytesKept = 1 << 20;

std::size_t write_number(char (&text)[24], std::uint64_t number) {
  return static_cast<std::size_t>(std::to_chars(text, text + sizeof text, number).ptr - text);
}

}  // namespace

bool Value::is_nil() const { return reply_ == nullptr || reply_->type == REDIS_REPLY_NIL; }
bool Value::is_error() const { return reply_ != nullptr && reply_->type == REDIS_REPLY_ERROR; }
bool Value::is_array() const { return reply_ != nullptr && reply_->type == REDIS_REPLY_ARRAY; }
bool Value::is_text() const {
  return reply_ != nullptr &&
         (reply_->type == REDIS_REPLY_STRING || reply_->type == REDIS_REPLY_STATUS);
}

std::string_view Value::text() const {
  if (!is_text() && !is_error()) return {};
  return {reply_->str, reply_->len};
}

std::int64_t Value::integer() const {
  if (reply_ != nullptr && reply_->type == REDIS_REPLY_INTEGER) return reply_->integer;
  std::int64_t number = 0;
  const std::string_view digits = text();
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number;
}

std::size_t Value::size() const { return is_array() ? reply_->elements : 0; }

Value Value::at(std::size_t index) const {
  return index < size() ? Value(reply_->element[index]) : Value();
}

Value Value::named(std::string_view name) const {
  for (std::size_t i = 0; i + 1 < size(); i += 2)
    if (at(i).text() == name) return at(i + 1);
  return {};
}

Connection::Connection() = default;
Connection::~Connection() = default;
Connection::Connection(Connection&& other) noexcept = default;
Connection& Connection::operator=(Connection&& other) noexcept = default;

Result<Connection> Connection::open(const Options& options, Clock& clock) {
  const net::Endpoint endpoint{options.host, options.port};
  Result<net::Stream> stream = net::Stream::connect(endpoint, options.connect_timeout);
  if (!stream) return fail(stream.error());
  if (options.tls) DOVETAIL_TRY(stream->start_tls(options, options.connect_timeout));
  Connection connection;
  connection.stream_ = std::move(*stream);
  connection.reader_.reset(redisReaderCreate());
  if (!connection.reader_)
    return fail(Errc::unavailable, "redis: out of memory; check the memory limit of this process");
  connection.reader_->maxbuf = kReaderBytesKept;
  connection.clock_ = &clock;
  connection.ask_timeout_ = options.connect_timeout;
  connection.place_ = "redis " + endpoint.to_string();
  connection.in_.resize(kReadBytes);
  DOVETAIL_TRY(connection.greet(options));
  return connection;
}

Status Connection::greet(const Options& options) {
  if (!options.password.empty()) {
    const Result<Reply> known = options.user.empty()
                                    ? ask({"AUTH", options.password})
                                    : ask({"AUTH", options.user, options.password});
    if (!known) return fail(known.error());
  }
  if (options.database == 0) return {};
  const std::string database = std::to_string(options.database);
  const Result<Reply> chosen = ask({"SELECT", database});
  if (!chosen) return fail(chosen.error());
  return {};
}

void Connection::begin(std::size_t arguments) {
  char text[24];
  out_ += '*';
  out_.append(text, write_number(text, arguments));
  out_ += "\r\n";
}

void Connection::add(std::string_view argument) {
  char text[24];
  out_ += '$';
  out_.append(text, write_number(text, argument.size()));
  out_ += "\r\n";
  out_ += argument;
  out_ += "\r\n";
}

void Connection::add_number(std::uint64_t argument) {
  char text[24];
  add({text, write_number(text, argument)});
}

void Connection::command(std::initializer_list<std::string_view> arguments) {
  begin(arguments.size());
  for (const std::string_view argument : arguments) add(argument);
}

Status Connection::broken(const Error& error) {
  stream_.close();
  return fail(error.code, place_ + ": " + error.text);
}

Status Connection::send() {
  while (sent_ < out_.size()) {
    const Result<std::size_t> written = stream_.write_some(std::string_view(out_).substr(sent_));
    if (!written) return broken(written.error());
    if (*written == 0) return {};
    sent_ += *written;
  }
  out_.clear();
  sent_ = 0;
  return {};
}

Result<Reply> Connection::take() {
  if (!is_open()) return fail(Errc::unavailable, place_ + ": not connected; check the server");
  while (true) {
    void* reply = nullptr;
    if (redisReaderGetReply(reader_.get(), &reply) != REDIS_OK) {
      const Status lost = broken(
          {Errc::unavailable, "the server does not speak the Redis protocol (" +
                                  std::string(reader_->errstr) + "); check host, port and TLS"});
      return fail(lost.error());
    }
    if (reply != nullptr) return Reply(static_cast<redisReply*>(reply));
    const Result<std::size_t> came = stream_.read_some(in_);
    if (!came) return fail(broken(came.error()).error());
    if (*came == 0) return Reply();
    redisReaderFeed(reader_.get(), in_.data(), *came);
  }
}

Status Connection::wait(Duration timeout) {
  const Status waited = stream_.wait(sent_ < out_.size(), timeout);
  return waited ? waited : broken(waited.error());
}

Result<Reply> Connection::take_within(Duration timeout) {
  const TimePoint end = clock_->now() + timeout;
  while (true) {
    DOVETAIL_TRY(send());
    Result<Reply> reply = take();
    if (!reply || *reply) return reply;
    const TimePoint now = clock_->now();
    if (now >= end) {
      const Error late{Errc::unavailable, "no reply in time; check the server's load"};
      return fail(broken(late).error());
    }
    DOVETAIL_TRY(wait(end - now));
  }
}

Result<Reply> Connection::ask(std::initializer_list<std::string_view> arguments) {
  command(arguments);
  Result<Reply> reply = take_within(ask_timeout_);
  if (reply && reply->value().is_error()) return fail(server_error(place_, reply->value().text()));
  return reply;
}

}  // namespace dovetail::redis

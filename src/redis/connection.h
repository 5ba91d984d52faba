// One connection to a Redis server: commands out, replies in, in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "core/clock.h"
#include "core/handle.h"
#include "dovetail/result.h"
#include "host/stream.h"
#include "redis/options.h"

struct redisReader;
struct redisReply;
extern "C" void freeReplyObject(void* reply);
extern "C" void redisReaderFree(redisReader* reader);

namespace dovetail::redis {

// A part of a reply, valid as long as the reply. If the server answered in another form, the
// missing part is nil, empty or 0.
class Value {
 public:
  Value() = default;
  explicit Value(const redisReply* reply) : reply_(reply) {}

  bool is_nil() const;
  bool is_error() const;
  bool is_text() const;  // a string or a status
  bool is_array() const;
  std::string_view text() const;  // of a string, a status or an error
  std::int64_t integer() const;   // also from a string of digits
  std::size_t size() const;       // of an array
  Value at(std::size_t index) const;
  // A value of an array of names and values; nil: no such name.
  Value named(std::string_view name) const;

 private:
  const redisReply* reply_ = nullptr;
};

class Reply {
 public:
  Reply() = default;
  explicit Reply(redisReply* reply) : reply_(reply) {}
  explicit operator bool() const { return reply_ != nullptr; }
  Value value() const { return Value(reply_.get()); }

 private:
  Handle<redisReply, freeReplyObject> reply_;
};

// One thread at a time. Only open(), wait(), take_within() and ask() wait. Every error closes the
// connection for good, except an error reply that ask() returns.
class Connection {
 public:
  Connection();
  ~Connection();
  Connection(Connection&& other) noexcept;
  Connection& operator=(Connection&& other) noexcept;

  // Connects, with TLS if wanted, logs in and selects the database.
  static Result<Connection> open(const Options& options, Clock& clock);

  bool is_open() const { return stream_.is_open(); }
  void close() { stream_.close(); }

  // Starts a command in the buffer; exactly `arguments` arguments must follow.
  void begin(std::size_t arguments);
  void add(std::string_view argument);
  void add_number(std::uint64_t argument);
  void command(std::initializer_list<std::string_view> arguments);

  // Sends as much of the buffer as possible without waiting.
  Status send();
  // The next received reply; an empty one: none has come.
  Result<Reply> take();
  // Waits at most `timeout` until it can send or receive.
  Status wait(Duration timeout);
  // The next reply; sends the buffer meanwhile. unavailable: it did not come in time.
  Result<Reply> take_within(Duration timeout);
  // One command and its reply, if no other command is running, within connect_timeout. An error
  // reply becomes an error.
  Result<Reply> ask(std::initializer_list<std::string_view> arguments);

 private:
  Status greet(const Options& options);
  Status broken(const Error& error);

  net::Stream stream_;
  Handle<redisReader, redisReaderFree> reader_;
  Clock* clock_ = nullptr;
  Duration ask_timeout_{};
  std::string place_;  // the server, for error texts
  std::string out_;
  std::size_t sent_ = 0;  // of out_
  std::vector<char> in_;
};

}  // namespace dovetail::redis

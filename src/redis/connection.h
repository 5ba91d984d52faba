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

// A part of a reply, valid as long as the reply. What is asked of it and is not there, because a
// server answers in another shape than expected, is nil, empty or 0.
class Value {
 public:
  Value() = default;
  explicit Value(const redisReply* reply) : reply_(reply) {}

  bool is_nil() const;
  bool is_error() const;
  bool is_text() const;  // a string or a status
  bool is_array() const;
  std::string_view text() const;  // of a string, a status or an error
  std::int64_t integer() const;   // also of a string of digits
  std::size_t size() const;       // of an array
  Value at(std::size_t index) const;
  // Of an array of names and values in turn; nil: there is no such name.
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

// One thread at a time. Nothing but ask() and open() waits for the server. Every error but those
// that ask() finds in a reply closes the connection for good.
class Connection {
 public:
  Connection();
  ~Connection();
  Connection(Connection&& other) noexcept;
  Connection& operator=(Connection&& other) noexcept;

  // Connects, with TLS where it is wanted, says who we are and chooses the database.
  static Result<Connection> open(const Options& options, Clock& clock);

  bool is_open() const { return stream_.is_open(); }
  void close() { stream_.close(); }

  // Writes a command into the buffer: begin(), then exactly so many arguments.
  void begin(std::size_t arguments);
  void add(std::string_view argument);
  void add_number(std::uint64_t argument);
  void command(std::initializer_list<std::string_view> arguments);

  // Sends of the buffer what can be sent without waiting.
  Status send();
  // The next reply that has come; an empty one: none has.
  Result<Reply> take();
  // Waits until something can be sent or taken, at most `timeout`.
  Status wait(Duration timeout);
  // The next reply, sending what is in the buffer meanwhile. unavailable: it did not come in time.
  Result<Reply> take_within(Duration timeout);
  // One command and its reply, when no other is under way, within the time for connecting. A reply
  // that is an error becomes one.
  Result<Reply> ask(std::initializer_list<std::string_view> arguments);

 private:
  Status greet(const Options& options);
  Status broken(const Error& error);

  net::Stream stream_;
  Handle<redisReader, redisReaderFree> reader_;
  Clock* clock_ = nullptr;
  Duration ask_timeout_{};
  std::string place_;  // of the server, for texts of errors
  std::string out_;
  std::size_t sent_ = 0;  // of out_
  std::vector<char> in_;
};

}  // namespace dovetail::redis

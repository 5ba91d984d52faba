// Sends statements on one connection without waiting, and reads their answers together.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "postgres/connection/connection.h"

namespace dovetail::postgres {

// One thread at a time. After a failed statement the server skips all others until the next
// finish(). Bytes are sent and answers are read after every 64 KiB, so that the server works
// meanwhile and the two never block each other with full buffers.
//
// A text that equals the one before is parsed only once: it is the unnamed statement until another
// text replaces it. It does not outlive the transaction, so it works behind a pooler in transaction
// mode; named statements would not.
class Pipeline {
 public:
  enum class Answer : std::uint8_t { dropped, kept };

  Pipeline() = default;
  // Takes over an open and idle connection.
  explicit Pipeline(Connection connection);

  explicit operator bool() const { return static_cast<bool>(connection_); }
  // Whether the server or the network ended the connection, or an answer timed out; also while it
  // is lent. False if it was closed because of what was sent.
  bool is_lost() const;
  void close();
  void set_timeout(Duration timeout) { timeout_ = timeout; }
  // Returns the connection, which must be idle; closed if it is lost.
  Connection release();

  // unavailable: the connection is lost. finish() returns errors of the server.
  Status send(std::string_view sql, const Params& params = {}, Answer answer = Answer::dropped);
  // Waits for all answers and returns the first error. `during_commit`: COMMIT was sent, so a lost
  // connection means in_doubt.
  Status finish(bool during_commit = false);
  bool has_failed() const { return has_failed_; }  // finish() will return the error
  // The kept answers since the last call, in order. Use them only if finish() succeeded.
  std::vector<Rows> take_rows() { return std::exchange(rows_, {}); }
  // Of the error from finish(); empty if the connection was lost.
  const std::string& sqlstate() const { return sqlstate_; }
  // At the last finish().
  bool in_transaction() const;

  // Between these two calls, libpq functions may use the connection. It must be idle at lend(). If
  // it is not idle at take_back(), that fails and closes it.
  Result<pg_conn*> lend();
  Status take_back();
  bool is_lent() const { return is_lent_; }

 private:
  enum class Expected : std::uint8_t { dropped, kept, sync };

  Status lose(std::string_view why);
  void note_loss();
  Status flush_some();
  bool take_result();
  pg_conn* raw() const { return connection_.get(); }

  Connection connection_{};
  Duration timeout_ = std::chrono::seconds(30);
  std::deque<Expected> expected_{};
  std::vector<Rows> rows_{};
  std::string parsed_{};  // the text of the unnamed statement; empty: none
  std::size_t unsent_bytes_ = 0;
  bool is_lent_ = false;
  bool is_lost_ = false;
  bool has_failed_ = false;
  Error error_{};
  std::string sqlstate_{};
};

}  // namespace dovetail::postgres

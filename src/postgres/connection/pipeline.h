// Statements on one connection that are sent without waiting, and whose answers are read together.
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

// One thread at a time. After a statement has failed, the server skips all others up to the next
// finish(). What is sent goes out, and answers are read, whenever 64 KiB have gathered, so that the
// server works while the caller goes on and neither waits for the other with full buffers.
//
// A text that is the same as the one before is parsed once: it is sent as the statement without a
// name, which any other text replaces. Nothing of that outlives the transaction, so it works behind
// a pooler in transaction mode; names would not.
class Pipeline {
 public:
  enum class Answer : std::uint8_t { dropped, kept };

  Pipeline() = default;
  // Takes over an open connection on which nothing is under way.
  explicit Pipeline(Connection connection);

  explicit operator bool() const { return static_cast<bool>(connection_); }
  // Whether the server or the network ended it, or it gave no answer in time; also while it is
  // lent. Not when it was closed because of what was sent.
  bool is_lost() const;
  void close();
  void set_timeout(Duration timeout) { timeout_ = timeout; }
  // Gives the connection back, on which nothing may be under way; closed, where it is lost.
  Connection release();

  // unavailable: the connection is lost. Errors of the server are told by finish().
  Status send(std::string_view sql, const Params& params = {}, Answer answer = Answer::dropped);
  // Waits until everything is answered, and tells the first error. `during_commit`: COMMIT is among
  // what was sent, so a lost connection means in_doubt.
  Status finish(bool during_commit = false);
  bool has_failed() const { return has_failed_; }  // and finish() will tell how
  // The kept answers since the last call, in order; of use when finish() went well.
  std::vector<Rows> take_rows() { return std::exchange(rows_, {}); }
  // Of the error that finish() told; empty when the connection was lost.
  const std::string& sqlstate() const { return sqlstate_; }
  // As of the last finish().
  bool in_transaction() const;
  bool in_failed_transaction() const;

  // Between these two calls the connection is used as libpq's functions use it. Nothing may be
  // under way at lend(). take_back() fails when something is still under way, and closes it then.
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
  std::string parsed_{};  // the text of the statement without a name; empty: none
  std::size_t unsent_bytes_ = 0;
  bool is_lent_ = false;
  bool is_lost_ = false;
  bool has_failed_ = false;
  Error error_{};
  std::string sqlstate_{};
};

}  // namespace dovetail::postgres

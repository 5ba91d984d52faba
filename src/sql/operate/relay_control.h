// Writes what an operator ordered for a relay, unless something speaks against it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/relay/hold.h"
#include "core/steering.h"
#include "dovetail/result.h"
#include "sql/operate/audit.h"
#include "sql/session.h"

namespace dovetail {

// $1 of every statement is the relay.
struct RelayControlStatements {
  // Returns the order for it, whether a process has its lease, and the number of the last event
  // that it has passed. No row: it has never run. Within a transaction the row cannot change until
  // the transaction ends.
  std::string find;
  // $2 order, $3 reason. Keeps them with the time and the user; the order '' takes all away.
  std::string hold;
  // Returns the number of the last event. 0: there is no event.
  std::string last;
  // $2 time. Finds the first event at or after it, and returns the number before that event. null:
  // no such event.
  std::string before;
  // $2 and $3 numbers. Returns how many events after the first, up to the second, it carries.
  std::string count;
  // $2 number. Returns how many events after it an operator has discarded.
  std::string count_discarded;
  // $2 number, $3 events skipped by it, $4 order. The relay has passed all up to the number. Nobody
  // has the lease, and the epoch is one higher. The order '' takes away who gave the last one.
  std::string move;
  // $2 number. What is after it is skipped no more.
  std::string cut_skips;
  // $2 and $3 numbers. What is after the first, up to the second, is skipped.
  std::string add_skip;
  // $2 name. Returns whether a relay, or parked events, have the name, and whether the relay $1 is
  // a consumer.
  std::string names;
  // $2 new name. Run in this order.
  std::vector<std::string> rename;
  // Returns whether it has parked or waiting events.
  std::string has_parked;
  // Run in this order.
  std::vector<std::string> forget;
  AuditStatements audit;
};

// The number of the last event that a relay has passed after the move; empty: that of the last one
// that is there. `before` is the statement of this name.
Result<std::optional<std::int64_t>> last_before(SqlSession& session, std::string_view before,
                                                const std::string& relay, const SeekTo& to);

// rejected, for all that write: the relay has never run, or the reason is missing or too long.
class RelayControl {
 public:
  RelayControl(SqlSession& session, const RelayControlStatements& sql)
      : session_(session), sql_(sql) {}

  // Whether a process has the lease.
  Result<bool> has_owner(const std::string& relay);
  Status hold(const std::string& relay, Hold wanted, const std::string& reason);
  // The relay gets the order `after`. A dry run only counts. rejected: a process has the lease.
  Result<SeekCounts> seek(const std::string& relay, const SeekTo& to, const std::string& reason,
                          Hold after, bool dry_run);
  // rejected: a process may run the relay; the name is taken; it is a consumer.
  Status rename(const std::string& relay, const std::string& new_name, const std::string& reason);
  // rejected: a process may run the relay, or it has parked events.
  Status forget(const std::string& relay, const std::string& reason);

 private:
  struct Row {
    Hold hold = Hold::none;
    bool has_owner = false;
    std::int64_t passed = 0;
  };
  Result<Row> find(const std::string& relay);
  Status check_stopped(const std::string& relay);
  Result<std::int64_t> number(std::string_view statement, const SqlParams& params);
  Result<std::uint64_t> count(const std::string& relay, std::int64_t after, std::int64_t upto);
  Result<SeekCounts> count_seek(const std::string& relay, std::int64_t from, std::int64_t to);
  Status move(const std::string& relay, std::int64_t from, std::int64_t to,
              const SeekCounts& counts, Hold after);
  Status run(std::string_view statement, const SqlParams& params);

  SqlSession& session_;
  const RelayControlStatements& sql_;
};

}  // namespace dovetail

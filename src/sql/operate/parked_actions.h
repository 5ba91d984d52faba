// What operators see of parked events, and what they decide about them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/operations.h"
#include "sql/heads.h"
#include "sql/operate/audit.h"
#include "sql/session.h"

namespace dovetail {

// A database whose roles must not avoid the audit has a function for each decision, which also
// writes the audit and the heads. It is the statement, and `audit.add` and `heads` are empty.
struct ParkedActionStatements {
  // $1 relay, $2 aggregate id, $3 aggregate type, $4 type, $5 part of the reason (each of them
  // empty: all), $6 number that comes before, $7 limit. Returns the columns of ParkedRow in their
  // order: an unfinished event has the finish time 0. More conditions follow, then `list_end`.
  std::string list;
  std::string list_of_event;  // $8 event id
  std::string list_unfinished;
  std::string list_heads;
  std::string list_end;
  // $1 event id, $2 relay (empty: all). Returns relay, state, whether it is a head, whether it is
  // finished, aggregate type and aggregate id, unfinished ones first.
  std::string find;
  // $1 relay, $2 aggregate type, $3 aggregate id. Returns the event id of the key's head.
  std::string head_of;
  // $1 relay (empty: all), $2 event id, $3 reason. Heads go out again at once, with 0 attempts.
  // Changes or returns their number.
  std::string replay;
  // $1 relay, $2 event id, $3 reason. A head is discarded for good. Changes or returns 1 or 0.
  std::string discard;
  // $1 event id, $2 id of its copy, both as text, $3 reason. Adds the audit row of an edit, unless
  // an earlier call with this copy has.
  std::string note_edit;
  HeadStatements heads;
  AuditStatements audit;
};

class ParkedActions {
 public:
  // The references must outlive this.
  ParkedActions(SqlSession& session, const ParkedActionStatements& sql)
      : session_(session), sql_(sql) {}

  Result<std::vector<ParkedRow>> list(const ParkedFilter& filter);
  // An empty relay means every relay. Returns the number of heads. rejected: the event is not
  // parked, or waits behind another one.
  Result<std::uint64_t> replay(std::string_view relay, const EventId& id, std::string_view reason);
  // rejected: the same, no reason is given, or several relays have it and none was named.
  Status discard(std::string_view relay, const EventId& id, std::string_view reason);
  // A changed copy goes out instead of an event: publishes it, records that, and discards the event
  // for every relay that parked it. All of this or nothing: `publish` runs in the same transaction.
  // Returns the number of relays. rejected: it waits behind another one, or no reason is given.
  Result<std::uint64_t> replace(const EventId& id, const EventId& copy, std::string_view reason,
                                const std::function<Status()>& publish);

 private:
  struct Parked;
  // All rows of the event, one for each relay that parked it, unfinished ones first.
  Result<std::vector<Parked>> find(std::string_view relay, const EventId& id);
  // Only the unfinished rows. rejected: no row is unfinished.
  Result<std::vector<Parked>> find_unfinished(std::string_view relay, const EventId& id);
  Status check_head(const EventId& id, const Parked& row);
  // In the caller's transaction.
  Status discard(const EventId& id, const Parked& row, std::string_view reason);

  SqlSession& session_;
  const ParkedActionStatements& sql_;
};

}  // namespace dovetail

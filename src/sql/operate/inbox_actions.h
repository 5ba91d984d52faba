// What an operator decides about an inbox.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "dovetail/event.h"
#include "sql/operate/audit.h"
#include "sql/session.h"

namespace dovetail {

struct InboxActionStatements {
  // $1 consumer. Returns a row if there is a consumer of this name, or one of its handlers
  // ("stock.mail").
  std::string known;
  // $1 consumer, $2 event id. Each of these that has not applied the event may apply it whatever
  // its age. Changes a row for each.
  std::string allow;
  // Returns until when the consumer that forgot most has forgotten; 0: nothing.
  std::string forgotten_until;
  // $1 time. No consumer has forgotten what came after it.
  std::string remember;
  AuditStatements audit;
};

// For an event that an operator checked: it was not applied. Returns for how many handlers; 0: all
// have applied it. rejected: no such consumer, or no reason.
Result<std::uint64_t> apply_event(SqlSession& session, const InboxActionStatements& sql,
                                  std::string_view consumer, const EventId& id,
                                  std::string_view reason);
// After a wrong clock: events that could first be applied after `since` count as remembered again.
// Returns the old limit. rejected: nothing was forgotten since then, or no reason.
Result<WallTime> remember_since(SqlSession& session, const InboxActionStatements& sql,
                                WallTime since, std::string_view reason);

}  // namespace dovetail

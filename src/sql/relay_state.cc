#include "sql/relay_state.h"

#include <algorithm>

#include "core/event/redact.h"
#include "core/event/utf8.h"

namespace dovetail {

namespace {

constexpr std::size_t kErrorBytesMax = 2000;

// The owner of the lane reports for the relay.
bool is_of_another(const LeaseHolder& holder, const SpokenState& spoken, std::string_view owner) {
  return !holder.owner.empty() && !holder.has_run_out && holder.epoch != spoken.epoch &&
         process_of(holder.owner) != process_of(owner);
}

}  // namespace

Status write_relay_state(SqlSession& session, const LaneStatements& lanes,
                         const RelayStateStatements& sql, const SqlLane& lane,
                         const std::string& owner, const SpokenState& spoken, TimePoint now) {
  const Result<std::optional<LeaseHolder>> holder = read_holder(session, lanes, lane);
  if (!holder) return fail(holder.error());
  if (*holder && is_of_another(**holder, spoken, owner)) return {};
  // The times are relative to the report.
  const Duration ago = now - spoken.said_at;
  const Duration until_try = std::max(spoken.state.next_try - ago, Duration{1});
  const bool tries = spoken.state.next_try > Duration::zero();
  const std::string error = stored_text(without_secrets(spoken.state.last_error), kErrorBytesMax);
  const Result<SqlRows> written =
      session.run(sql.write, lane.params()
                                 .integer(spoken.epoch)
                                 .text(owner)
                                 .text(to_string(spoken.state.kind))
                                 .microseconds(spoken.state.since + ago)
                                 .text(error)
                                 .microseconds(tries ? until_try : Duration{0})
                                 .microseconds(holds_for(spoken, now)));
  if (!written) return fail(written.error());
  return {};
}

}  // namespace dovetail

// The double of a handler's transaction, for an application's own tests.
#include "dovetail/postgres_testing.h"
#include "host/host.h"
#include "postgres/inbox/invocation.h"

namespace dovetail::postgres {

Status RecordedInvocation::queue(std::string_view sql, std::initializer_list<Param> params) {
  if (ends_transaction(sql))
    return fail(Errc::rejected, "the handler must not end the transaction; check the handler");
  queued_.push_back({std::string(sql), params});
  return {};
}

Result<EventId> RecordedInvocation::publish(const NewEvent& event) {
  DOVETAIL_TRY(validate(event));
  test::ReceivedEvent& copy = published_.emplace_back();
  copy.id = event.id ? *event.id : new_event_id();
  copy.topic = event.topic;
  copy.aggregate_type = event.aggregate_type;
  copy.aggregate_id = event.aggregate_id;
  copy.type = event.type;
  copy.content_type = event.content_type;
  copy.headers.assign(event.headers.begin(), event.headers.end());
  copy.payload = event.payload;
  copy.aggregate_version = event.aggregate_version;
  return copy.id;
}

Result<pg_conn*> RecordedInvocation::connection() {
  return fail(Errc::rejected,
              "a recorded transaction has no connection; test this handler with a server");
}

}  // namespace dovetail::postgres

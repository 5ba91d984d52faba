// For an application's own tests: calls a PostgreSQL handler without a server, and records what it
// does. Together with test::Consumer of dovetail/testing.h:
//
//   RecordedInvocation invocation;
//   test::Consumer consumer([&](const Event& event) { return handler(invocation, event); });
#pragma once

#include <string>
#include <vector>

#include "dovetail/postgres_consumer.h"
#include "dovetail/testing.h"

namespace dovetail::postgres {

class RecordedInvocation final : public Invocation {
 public:
  struct Queued {
    std::string sql{};
    std::vector<Param> params{};
  };

  Status queue(std::string_view sql, std::initializer_list<Param> params = {}) override;
  // Checks the event as publish() does.
  Result<EventId> publish(const NewEvent& event) override;
  // rejected: there is no connection. A handler that needs one is tested with a server.
  Result<pg_conn*> connection() override;

  const std::vector<Queued>& queued() const { return queued_; }
  const std::vector<test::ReceivedEvent>& published() const { return published_; }

 private:
  std::vector<Queued> queued_;
  std::vector<test::ReceivedEvent> published_;
};

}  // namespace dovetail::postgres

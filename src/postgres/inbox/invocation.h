// The open transaction of a batch, as handlers use it and as the inbox ends it.
#pragma once

#include <optional>
#include <string_view>

#include "dovetail/postgres_consumer.h"
#include "postgres/connection/pipeline.h"

namespace dovetail::postgres {

// For dovetail's own handlers: parameters of any type.
class BatchInvocation : public Invocation {
 public:
  using Invocation::queue;
  virtual Status queue(std::string_view sql, const Params& params) = 0;
};

// COMMIT, ROLLBACK, END, ABORT or PREPARE TRANSACTION, also after spaces and comments.
bool ends_transaction(std::string_view sql);

// What the server's answer to a handler's statement means for the event: failed when it failed
// this time, unavailable when it does not count, rejected when it will never work.
Errc handler_errc(std::string_view sqlstate, Errc code);

// Queued statements cannot end the transaction, because they are checked first. Statements on
// the connection itself are not seen. So while it is lent, the server refuses COMMIT: a
// deferred trigger stops it because of a row in dovetail.commit_guard, and that row must still
// exist at the end. If a handler has ended the transaction anyway, no further statement is
// accepted.
class OpenTransaction final : public BatchInvocation {
 public:
  explicit OpenTransaction(Pipeline& pipeline) : pipeline_(pipeline) {}

  Status queue(std::string_view sql, std::initializer_list<Param> params) override;
  Status queue(std::string_view sql, const Params& params) override;
  Result<EventId> publish(const NewEvent& event) override;
  Result<pg_conn*> connection() override;

  // After a handler has returned `handled`: takes the connection back. A handler that has ended the
  // transaction is rejected, whatever it returned.
  Status judge(const Status& handled);
  // After the last handler: all queued statements are done, deferred constraints hold, and it is
  // still the same transaction.
  Status finish();

 private:
  Status take_back();
  Status remember(Error error);
  Status remember_end();
  Status settle();
  Status check_ours(bool may_have_failed);

  Pipeline& pipeline_;
  bool is_guarded_ = false;
  bool is_ended_ = false;  // by a handler
  std::optional<Error> error_{};
};

}  // namespace dovetail::postgres

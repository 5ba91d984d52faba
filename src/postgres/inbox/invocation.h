// The open transaction of a batch, as handlers get it and as the inbox ends it.
#pragma once

#include <optional>
#include <string_view>

#include "dovetail/postgres_consumer.h"
#include "postgres/connection/pipeline.h"

namespace dovetail::postgres {

// For handlers of our own: parameters of any type.
class BatchInvocation : public Invocation {
 public:
  using Invocation::queue;
  virtual Status queue(std::string_view sql, const Params& params) = 0;
};

// COMMIT, ROLLBACK, END, ABORT or PREPARE TRANSACTION, whatever spaces and comments stand before.
bool ends_transaction(std::string_view sql);

// What the server's answer to a handler's statement means for the event: failed when it failed
// this time, unavailable when it does not count, rejected when it will never work.
Errc handler_errc(std::string_view sqlstate, Errc code);

// What is queued cannot end the transaction, because it is looked at before. What runs on the
// connection itself is not seen, so the server is asked to refuse COMMIT while it is lent, by a row
// in dovetail.commit_guard, which a deferred trigger does not let through and which must still be
// there in the end. Once a handler has ended the transaction all the same, no other statement is
// taken.
class OpenTransaction final : public BatchInvocation {
 public:
  explicit OpenTransaction(Pipeline& pipeline) : pipeline_(pipeline) {}

  Status queue(std::string_view sql, std::initializer_list<Param> params) override;
  Status queue(std::string_view sql, const Params& params) override;
  Result<EventId> publish(const NewEvent& event) override;
  Result<pg_conn*> connection() override;

  // After a handler has returned `handled`: takes the connection back. A handler that has ended the
  // transaction is rejected, whatever it says itself.
  Status judge(const Status& handled);
  // After the last handler: everything queued is done, deferred constraints hold, and the
  // transaction is the one that it was.
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

// A consumer's inbox in its SQLite file.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/inbox/handler_batch.h"
#include "core/inbox/inbox.h"
#include "dovetail/sqlite.h"
#include "sqlite/connection/database.h"

namespace dovetail::sqlite {

// A handler inside the consumer's transaction.
struct TransactionHandler {
  std::string name;                  // names its inbox rows: "stock", or "stock.ledger"
  std::vector<std::string> types{};  // types that it wants; empty: all
  BatchHandler run;                  // gets the events that it wants and has not applied, in order
};

// A handler of single events as one of batches.
BatchHandler for_each(Handler each);

// Handlers run on the same connection. A commit by a handler is turned into a rollback and
// reported: otherwise it would commit the inbox rows of later events without their effects.
//
// An event is first if any of its handlers has not applied it. An event that no handler wants is
// first, too, and no handler gets it.
class SqliteInboxStore final : public InboxStore {
 public:
  // `consumer`: the name for attempts and totals.
  SqliteInboxStore(std::string path, std::string consumer, std::vector<TransactionHandler> handlers,
                   Clock& clock);
  // With one handler, whose rows have the consumer's name.
  SqliteInboxStore(std::string path, std::string consumer, Handler handler, Clock& clock);
  ~SqliteInboxStore() override;

  Result<bool> open() override;
  Status begin() override;
  Status insert(Events events, std::span<Arrival> arrivals) override;
  Status apply(Events events) override;
  bool wants(const Event& event) const override;
  Status commit(std::uint64_t applied, std::uint64_t duplicates) override;
  void rollback() override;
  Result<std::uint32_t> count_attempt(const EventId& id, std::int64_t change) override;
  Status close() override;

 private:
  // A handler as the file knows it.
  struct Known {
    std::int64_t id = 0;
    WallTime forgotten_until = WallTime::min();
  };

  Status prepare();
  Result<bool> start_session();
  Status look_for_attempts();
  Status insert_all(Events events, std::span<Arrival> arrivals);
  Status insert_one(const Event& event, HandlerRow& row);
  Result<Arrival> check_first(const Event& event, const Known& handler);
  Result<Arrival> compare(const Event& event, const Known& handler);
  Status run_handler(const TransactionHandler& handler, Events events);

  std::string path_;
  std::string consumer_;
  std::vector<TransactionHandler> handlers_;
  Clock& clock_;
  std::vector<Known> known_handlers_;  // one for each handler
  std::int64_t consumer_id_ = 0;
  bool counts_attempts_ = false;  // some event has attempts: remove them when it is applied
  bool session_open_ = false;
  bool in_handler_ = false;
  bool commit_tried_ = false;    // by the handler
  bool rolled_back_ = false;     // while the handler ran
  bool rollback_asked_ = false;  // by the handler

  HandlerBatch batch_;  // of the open transaction

  Checkpointer checkpointer_;
  std::string file_;
  Database database_;
  Statement insert_;
  Statement take_back_;
  Statement known_;
  Statement note_unapplied_;
  Statement forget_unapplied_;
  Statement add_totals_;
  Statement count_attempt_;
  Statement forget_attempt_;
  Statement any_attempts_;
};

}  // namespace dovetail::sqlite

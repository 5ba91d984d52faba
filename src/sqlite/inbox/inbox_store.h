// A consumer's inbox in its SQLite file.
#pragma once

#include <functional>
#include <string>

#include "core/inbox/inbox.h"
#include "sqlite/connection/database.h"

namespace dovetail::sqlite {

using Handler = std::function<Status(sqlite3* transaction, const Event& event)>;

// The handler runs on the same connection. A commit by the handler is turned into a rollback
// and reported: otherwise it would commit the inbox rows of later events without their
// effects.
class SqliteInboxStore final : public InboxStore {
 public:
  SqliteInboxStore(std::string path, std::string consumer, Handler handler, Clock& clock);
  ~SqliteInboxStore() override;

  Result<bool> open() override;
  Status begin() override;
  Status insert(Events events, std::span<Arrival> arrivals) override;
  Status apply(Events events) override;
  Status commit(std::uint64_t applied, std::uint64_t duplicates) override;
  void rollback() override;
  Result<std::uint32_t> count_attempt(const EventId& id, std::int64_t change) override;
  Status close() override;

 private:
  Status prepare();
  Result<bool> start_session();
  Status look_for_attempts();
  Status insert_all(Events events, std::span<Arrival> arrivals);
  Result<Arrival> check_first(const Event& event, WallTime forgotten);
  Result<Arrival> compare(const Event& event);
  Status apply_one(const Event& event);
  Status call_handler(const Event& event);

  std::string path_;
  std::string consumer_;
  Handler handler_;
  Clock& clock_;
  std::int64_t consumer_id_ = 0;
  bool counts_attempts_ = false;  // some event has attempts: remove them when it is applied
  bool session_open_ = false;
  bool in_handler_ = false;
  bool commit_tried_ = false;    // by the handler
  bool rolled_back_ = false;     // while the handler ran
  bool rollback_asked_ = false;  // by the handler
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

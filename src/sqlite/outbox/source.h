// Reads the outbox or the mailbox of a SQLite file in commit order, and follows it.
#pragma once

#include <string>

#include "core/life/receipt.h"
#include "core/relay/source.h"
#include "sqlite/connection/change_watch.h"
#include "sqlite/connection/database.h"
#include "sqlite/lane/reader.h"

namespace dovetail::sqlite {

// SQLite has one writer at a time, so numbers grow in commit order: everything after the last
// settled number is pending. read() sees a commit of another process within a few milliseconds. The
// file must be on a local file system.
class SqliteSource final : public Source {
 public:
  // The lease and the parking of the lane share `reader`, which must outlive them.
  SqliteSource(Reader& reader, Clock& clock);

  // unavailable: the file or its tables are missing.
  Status open() override;
  Status read(Batch& out, const Limits& limits, std::stop_token stop) override;
  Status settle(const Batch& batch, std::span<const Settled> fates) override;
  // stopped: another relay has taken the lane.
  Status flush() override;
  Receipt* receipt() override { return &receipt_; }

 private:
  Status prepare();
  Status read_now(Batch& out, const Limits& limits);
  // False: nothing was committed in that time.
  Result<bool> wait_for_commit(Duration wait_max, std::stop_token stop);
  Status write_progress();
  Status update_progress();
  Status insert_receipt();
  void written();

  Reader& reader_;
  Clock& clock_;
  Database database_;
  std::string file_;
  Statement select_;
  Statement select_last_;
  Statement update_progress_;
  Statement insert_receipt_;
  ChangeWatch watch_;
  Checkpointer checkpointer_;
  std::chrono::steady_clock::time_point active_at_{};
  std::int64_t data_version_ = -1;
  std::int64_t read_to_ = 0;        // up to here everything was returned, or has other topics
  std::int64_t handed_to_ = 0;      // the last event returned
  std::int64_t settled_ = 0;        // up to here everything is settled
  std::int64_t written_ = 0;        // the same, as written in the file
  std::int64_t settled_since_ = 0;  // events settled since the last write
  std::int64_t parked_since_ = 0;
  std::int64_t skipped_since_ = 0;
  Receipt receipt_{};  // of what was delivered since the last flush()
};

}  // namespace dovetail::sqlite

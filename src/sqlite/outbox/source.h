// Reads the outbox or the mailbox of a SQLite file, in the order of commits, and follows it.
#pragma once

#include <string>

#include "core/relay/source.h"
#include "sqlite/connection/change_watch.h"
#include "sqlite/connection/database.h"
#include "sqlite/lane/reader.h"

namespace dovetail::sqlite {

// A write transaction of SQLite is alone, so numbers are given in the order of commits: what stands
// behind the last settled number is what is left to do. read() sees a commit of another process
// within a few milliseconds. The file must be on a local file system.
class SqliteSource final : public Source {
 public:
  // `reader` is shared with the lease and the parking of the same lane, and outlives them.
  SqliteSource(Reader& reader, Clock& clock);

  // unavailable: the file or its tables are not there yet.
  Status open() override;
  Status read(Batch& out, const Limits& limits, std::stop_token stop) override;
  Status settle(const Batch& batch, std::span<const Settled> fates) override;
  // stopped: another relay has taken the lane over.
  Status flush() override;

 private:
  Status prepare();
  Status read_now(Batch& out, const Limits& limits);
  // False: nothing was committed meanwhile.
  Result<bool> wait_for_commit(Duration wait_max, std::stop_token stop);
  Status write_progress();

  Reader& reader_;
  Clock& clock_;
  Database database_;
  std::string file_;
  Statement select_;
  Statement select_last_;
  Statement update_progress_;
  ChangeWatch watch_;
  Checkpointer checkpointer_;
  std::chrono::steady_clock::time_point active_at_{};
  std::int64_t data_version_ = -1;
  std::int64_t read_to_ = 0;        // everything up to here was handed out, or is of another topic
  std::int64_t handed_to_ = 0;      // the last event that was handed out
  std::int64_t settled_ = 0;        // everything up to here is finished
  std::int64_t written_ = 0;        // the same, as the file has it
  std::int64_t settled_since_ = 0;  // events settled since the file was told
  std::int64_t parked_since_ = 0;
};

}  // namespace dovetail::sqlite

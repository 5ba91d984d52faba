// Tells people and the database how a lane reads, from the WAL or the table, and why.
#pragma once

#include <string>
#include <string_view>

#include "core/metrics.h"
#include "postgres/lane/reader.h"
#include "postgres/wal/options.h"

namespace dovetail::postgres {

// One thread. Reports each change once, also over several sessions.
class ReadStatus {
 public:
  // All must outlive this.
  ReadStatus(Reader& reader, RelayMetrics& metrics, const WalSourceOptions& options);
  ~ReadStatus();
  ReadStatus(const ReadStatus&) = delete;
  ReadStatus& operator=(const ReadStatus&) = delete;

  // A session begins; it reads the table.
  Status open();
  void reads_wal(std::string_view why) { say(true, why); }
  void reads_table(std::string_view why) { say(false, why); }

 private:
  void say(bool streams, std::string_view why);
  void clear();
  // Informational only; written without fsync.
  Status write(bool streams, std::string_view why);

  Reader& reader_;
  RelayMetrics& metrics_;
  const WalSourceOptions& options_;
  bool streams_ = false;  // the last report, with its reason
  std::string why_{};
};

}  // namespace dovetail::postgres

// Writes what an operator ordered for a relay of a file. The rules are in src/sql.
#pragma once

#include <string>

#include "core/relay/hold.h"
#include "core/steering.h"
#include "dovetail/result.h"

namespace dovetail::sqlite {

// rejected: the file has no such relay, or the reason is empty.
Status write_hold(const std::string& path, const std::string& relay, Hold hold,
                  const std::string& reason, Clock& clock);

// Whether a process has its lease.
Result<bool> has_owner(const std::string& path, const std::string& relay, Clock& clock);

// Moves the relay, which gets the order `after`; a dry run only counts. rejected: a process runs
// it.
Result<SeekCounts> write_seek(const std::string& path, const std::string& relay, const SeekTo& to,
                              const std::string& reason, Hold after, bool dry_run, Clock& clock);

// rejected: a process may run it, or the new name is taken.
Status write_rename(const std::string& path, const std::string& relay, const std::string& new_name,
                    const std::string& reason, Clock& clock);
// rejected: a process may run it, or it has parked events.
Status write_forget(const std::string& path, const std::string& relay, const std::string& reason,
                    Clock& clock);

}  // namespace dovetail::sqlite

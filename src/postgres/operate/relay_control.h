// Writes what an operator ordered for a relay. The functions of the schema check the rights and
// write the audit; the other rules are in src/sql.
#pragma once

#include <string>

#include "core/relay/hold.h"
#include "core/steering.h"
#include "dovetail/result.h"

namespace dovetail::postgres {

// rejected: no such relay has run here, the reason is empty, or the right is missing.
Status write_hold(const std::string& url, const std::string& relay, Hold hold,
                  const std::string& reason);

// Whether a process has a lane.
Result<bool> has_owner(const std::string& url, const std::string& relay);

// Moves the relay, which gets the order `after`; a dry run only counts. rejected: a process runs
// it.
Result<SeekCounts> write_seek(const std::string& url, const std::string& relay, const SeekTo& to,
                              const std::string& reason, Hold after, bool dry_run);

// Both return the slot that the relay leaves behind; empty: none. rejected: a process runs it.
Result<std::string> write_rename(const std::string& url, const std::string& relay,
                                 const std::string& new_name, const std::string& reason);
Result<std::string> write_forget(const std::string& url, const std::string& relay,
                                 const std::string& reason);

}  // namespace dovetail::postgres

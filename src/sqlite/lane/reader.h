// A reader of a file: what it reads, how far it has come, and who may write its
// progress.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/operations.h"
#include "core/relay/lease.h"
#include "sqlite/connection/database.h"

namespace dovetail::sqlite {

std::string_view table_of(SourceKind source);  // REQUIRES: outbox or mailbox

// Shared by source, lease and parking of a lane. All run on one thread.
struct Reader {
  // The file that is read, or that a broker's events fill; it also has lease and parked events.
  std::string path;
  std::string name;
  SourceKind source = SourceKind::outbox;
  std::vector<std::string> topics{};  // only these; empty: all
  // Where its events go, or come from if it reads a broker; empty: unknown. Written at the first
  // start.
  std::string target{};
  std::string filter{};            // of the relay, as RelayFilter::json(), for people
  bool starts_now = false;         // a first start leaves out what is there already
  std::int64_t epoch = kUnfenced;  // of the current lease; every write carries it
};

// Creates the reader's row if missing. rejected: a reader with this name reads something else, has
// another target, or the name is empty.
Status ensure_reader(Database& database, const Reader& reader);

// Assignments for an update of dovetail_relay that counts events: the time, and the samples from
// which `status` computes a rate. `now` is a parameter.
std::string sampled_at(const std::string& now);

// Writes progress and counts of a source. Parameters: name, epoch, the number up to which
// everything is settled, events settled since, events parked of these, now, events skipped of
// these. Changes no row if the lane has another owner.
const std::string& update_progress_sql();

// A list of topics as one text with a line break around each, so that SQL can find a topic without
// parsing.
std::string stored_topics(const std::vector<std::string>& topics);

}  // namespace dovetail::sqlite

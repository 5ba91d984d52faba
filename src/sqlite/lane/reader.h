// One reader of a file: who reads which of its streams, how far it has come, and who may write that
// down.
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

// Shared by the source, the lease and the parking of one lane; all of them run on one thread.
struct Reader {
  // The file that is read, or that is filled from outside; lease and parked events live in it too.
  std::string path;
  std::string name;
  SourceKind source = SourceKind::outbox;
  std::vector<std::string> topics{};  // only these; empty: all
  // Where its events go, or, where it reads a broker, come from; empty: not said. It is written
  // down at the first start.
  std::string target{};
  std::int64_t epoch = kUnfenced;  // of the lease, when there is one. Every write carries it.
};

// Makes the reader's row when it is not there. rejected: the name is taken by a reader of another
// stream, or of another target, or empty.
Status ensure_reader(Database& database, const Reader& reader);

// stopped: the row carries another epoch. Ask inside the transaction that writes.
Status check_epoch(Statement& select_epoch, const Reader& reader);
extern const std::string_view kSelectEpoch;

// Writes how far the reader has come, counts on, and takes the samples that give the rate.
// Parameters: name, epoch, number up to which everything is settled (0 where a broker is read), how
// many events were settled since, how many of them parked, now. Changes no row when the lane has
// another owner.
extern const std::string_view kUpdateProgress;

// A list of topics as one text with a line break around each, so that SQL finds a topic in it
// without parsing.
std::string stored_topics(const std::vector<std::string>& topics);

}  // namespace dovetail::sqlite

// Makes events of what a stream of the log brings.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/event/batch.h"
#include "dovetail/result.h"
#include "postgres/stream/pgoutput.h"

namespace dovetail::postgres {

// One thread at a time. Of one table, or of several that are meant alike.
class WalRows {
 public:
  virtual ~WalRows() = default;

  // How rows of a table look from here on; columns are found by their names. rejected: something
  // that an event needs is not among them.
  virtual Status describe(const pgoutput::Relation& relation) = 0;
  // Appends the event of a row, or none when it is no event. Bytes are copied once, into the arena.
  // What cannot be understood becomes an event with a defect, so that it is parked and not lost.
  virtual Status append(std::uint32_t relation, std::span<const pgoutput::Value> values,
                        const pgoutput::Begin& transaction, Batch& out) = 0;
};

// Of dovetail.outbox.
std::unique_ptr<WalRows> outbox_rows();

// The prefix of messages that prove the log.
inline constexpr std::string_view kProbePrefix = "dovetail.probe";

}  // namespace dovetail::postgres

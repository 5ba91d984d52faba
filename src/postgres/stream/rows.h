// Makes events from a WAL stream.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/event/batch.h"
#include "dovetail/result.h"
#include "postgres/stream/pgoutput.h"

namespace dovetail::postgres {

// One thread at a time. For one table, or several with the same meaning.
class WalRows {
 public:
  virtual ~WalRows() = default;

  // The form of a table's rows from now on; columns are found by name. rejected: a column that
  // events need is missing.
  virtual Status describe(const pgoutput::Relation& relation) = 0;
  // Appends the event of a row, if it is one. Bytes are copied once, into the arena. A row that
  // cannot be understood becomes an event with a defect, so it is parked, not lost.
  virtual Status append(std::uint32_t relation, std::span<const pgoutput::Value> values,
                        const pgoutput::Begin& transaction, Batch& out) = 0;
};

// For dovetail.outbox.
std::unique_ptr<WalRows> outbox_rows();

// The prefix of probe messages, which show that the stream works.
inline constexpr std::string_view kProbePrefix = "dovetail.probe";

}  // namespace dovetail::postgres

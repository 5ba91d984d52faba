// Serves an application's own outbox table: reads the pending rows and marks them when they are
// settled.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/life/receipt.h"
#include "core/relay/source.h"
#include "postgres/connection/connection.h"
#include "postgres/lane/parking.h"
#include "postgres/lane/reader.h"
#include "postgres/mapped/catalog.h"
#include "postgres/mapped/table.h"

namespace dovetail::postgres {

// The table itself says which rows are pending. There is no cursor, so a row that commits late is
// not skipped. Rows of a key are read in the order of the mapping's column. That is the commit
// order only if the writer takes the value while it holds a lock on the aggregate, from a sequence
// without cache. `doctor` reports cases where that is impossible. Without a column for the
// aggregate id, rows have no order.
//
// Several relays can share a table by lanes; lease, parking and totals are in the schema dovetail.
class MappedSource final : public Source {
 public:
  // The lane's lease and parking share `reader`, which must outlive them. Make the source first: it
  // sets the lane to serve a mapped table.
  MappedSource(Reader& reader, TableMapping mapping, Clock& clock);

  // rejected: the mapping does not fit the table; the text says what to change. unavailable: the
  // schema dovetail is missing, or the server is a standby.
  Status open() override;
  Status read(Batch& out, const Limits& limits, std::stop_token stop) override;
  // One statement, durable when it returns. stopped: another relay has taken the lane.
  Status settle(const Batch& batch, std::span<const Settled> fates) override;
  Status flush() override;
  // Of a table whose rows say when they were delivered: that leads from a row to its receipt.
  Receipt* receipt() override { return keeps_receipts_ ? &receipt_ : nullptr; }

  // Sometimes marks rows whose events an operator has replayed or discarded.
  Status keep_alive() override;

  // Marks the rows of these events by their state in dovetail.parked. For events that are parked
  // now and came from here, it first records their rows: `events` is as long as `ids`, with null
  // for other events.
  Status mark(std::span<const EventId> ids, std::span<const Event* const> events);

 private:
  struct Row {
    EventId event;
    std::string key{};  // empty: the event id identifies it
  };
  // By position, because two rows can have the same event id: a UUID has two spellings, and the
  // index of the id may have another column.
  using InFlight = std::map<std::int64_t, Row>;

  Status read_page(Batch& out, const Limits& limits);
  Result<Rows> query_page(const Params& params);
  void append(Batch& out, const Rows& rows, std::size_t row);
  Status adopt_parked();
  Status mark_rows(std::span<const EventId> ids);
  Status mark_changed();
  Params& add_rows(Params& params, const std::vector<const Row*>& rows) const;
  Status written(const Result<Rows>& answer);
  void clear_receipt();

  Reader& reader_;
  TableMapping mapping_;
  Clock& clock_;
  MappedStatements statements_;
  std::string run_{};     // of the server, in which row keys are valid
  bool by_event_ = true;  // event ids identify rows
  bool keeps_receipts_ = false;
  // Of what was delivered since the last flush(), and between which times those rows were marked.
  Receipt receipt_{};
  WallTime first_mark_{};
  WallTime last_mark_{};
  InFlight in_flight_;  // read and not settled
  std::int64_t last_position_ = 0;
  TimePoint look_at_{};    // when to look again for decisions of operators
  TimePoint ask_at_{};     // when to read rows again, if the caller can wait
  TimePoint active_at_{};  // when the last row came
  bool backlog_ = false;   // the last page was large
};

// Keeps the marks of rows correct: the transaction that parks or finishes an event also marks its
// row.
class MappedParking final : public PostgresParking {
 public:
  MappedParking(Reader& reader, MappedSource& source) : PostgresParking(reader), source_(source) {}

 protected:
  Status changed(std::span<const Kept> events) override;

 private:
  MappedSource& source_;
};

}  // namespace dovetail::postgres

// Serves an outbox table that already exists, as it is: reads the rows that are still to be sent
// and marks what became of them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/relay/source.h"
#include "postgres/connection/connection.h"
#include "postgres/lane/parking.h"
#include "postgres/lane/reader.h"
#include "postgres/mapped/catalog.h"
#include "postgres/mapped/table.h"

namespace dovetail::postgres {

// What is left to do is what the table calls pending: there is no cursor, so a row that commits
// late is not skipped. Rows of a key are read in the order of the mapping's column; that is the
// order of commits only where the writer takes the value while it holds a lock on the aggregate,
// and a sequence without cache gives it. `doctor` says where that cannot be. Without a column for
// the aggregate id, rows have no order.
//
// Several relays share a table by lanes; lease, parking and totals are in the schema dovetail.
class MappedSource final : public Source {
 public:
  // `reader` is shared with the lease and the parking of the same lane, and outlives them. Make the
  // source first: it says that the lane serves a table of its own.
  MappedSource(Reader& reader, TableMapping mapping, Clock& clock);

  // rejected: the mapping does not fit the table; the text says what to change. unavailable: the
  // schema dovetail is not there, or the server is a standby.
  Status open() override;
  Status read(Batch& out, const Limits& limits, std::stop_token stop) override;
  // One statement, durable when it returns. stopped: another relay has taken the lane over.
  Status settle(const Batch& batch, std::span<const Settled> fates) override;
  Status flush() override { return {}; }

  // Marks rows whose event an operator replayed or discarded, now and then.
  Status keep_alive() override;

  // Marks the rows of these events as dovetail.parked has them. Of those that were parked now, and
  // have come from here, it first writes down which row each is: `events` are as long as `ids`, and
  // null for one that was not.
  Status mark(std::span<const EventId> ids, std::span<const Event* const> events);

 private:
  struct Row {
    EventId event;
    std::string key{};  // empty: it is known by the event
  };
  // Positions tell rows apart that are one event by their id: a UUID has two spellings, and the
  // index of the id may have another column beside it.
  using InFlight = std::map<std::int64_t, Row>;

  Status read_page(Batch& out, const Limits& limits);
  Result<Rows> query_page(const Params& params);
  void append(Batch& out, const Rows& rows, std::size_t row);
  Status adopt_parked();
  Status mark_rows(std::span<const EventId> ids);
  Status mark_changed();
  Params& add_rows(Params& params, const std::vector<const Row*>& rows) const;
  Status written(const Result<Rows>& answer);

  Reader& reader_;
  TableMapping mapping_;
  Clock& clock_;
  MappedStatements statements_;
  std::string run_{};     // of the server, in which ids of rows are known
  bool by_event_ = true;  // rows are known by their event ids
  InFlight in_flight_;    // read and not settled
  std::int64_t last_position_ = 0;
  TimePoint look_at_{};    // when to look for what operators decided again
  TimePoint ask_at_{};     // when to ask for rows again, if there is time to wait
  TimePoint active_at_{};  // of the last row
  bool backlog_ = false;   // the last page was large
};

// Keeps the marks of the rows true: in the transaction that parks or finishes an event, its row is
// marked.
class MappedParking final : public PostgresParking {
 public:
  MappedParking(Reader& reader, MappedSource& source) : PostgresParking(reader), source_(source) {}

 protected:
  Status changed(std::span<const Kept> events) override;

 private:
  MappedSource& source_;
};

}  // namespace dovetail::postgres

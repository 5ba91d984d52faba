// Serves an outbox table that already exists, as it is: reads the rows that are still to be sent
// and marks what became of them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/parking.h"
#include "core/source.h"
#include "postgres/connection.h"
#include "postgres/mapped_catalog.h"
#include "postgres/mapped_table.h"
#include "postgres/reader.h"

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

  // These were parked and have now been delivered: their rows count as sent.
  Status mark_delivered(std::span<const EventId> ids);

 private:
  // The ids of the rows, as text. Several rows may be one event: a UUID has two spellings, and the
  // index of the id may have another column beside it. They are handed out one by one, and each is
  // marked.
  using Ids = std::multimap<EventId, std::string>;

  Status read_page(Batch& out, const Limits& limits);
  Result<Rows> query_page(const Params& params);
  void append(Batch& out, const Rows& rows, std::size_t row);
  Status mark_discarded(bool all);
  Params& add_ids(Params& params, const std::vector<EventId>& events,
                  const std::vector<std::string_view>& ids) const;
  Status written(const Result<Rows>& answer);

  Reader& reader_;
  TableMapping mapping_;
  Clock& clock_;
  MappedStatements statements_;
  std::string run_{};  // of the server, in which ids of rows are known
  IdKind id_kind_ = IdKind::uuid;
  Ids in_flight_;  // read and not settled
  Ids parked_;     // parked in this session and not delivered
  std::int64_t last_position_ = 0;
  TimePoint discards_at_{};  // when to look for discarded events again
  TimePoint active_at_{};    // of the last row
  bool backlog_ = false;     // the last page was large
};

// Marks the row when an event is delivered out of parking; all else is left to `parking`.
class MappedParking final : public Parking {
 public:
  MappedParking(Parking& parking, MappedSource& source) : parking_(parking), source_(source) {}

  Status open() override { return parking_.open(); }
  Status blocked_keys(std::vector<OrderKey>& out, std::size_t keys_max) override {
    return parking_.blocked_keys(out, keys_max);
  }
  Status blocked_among(std::span<const OrderKey> keys, std::vector<OrderKey>& out) override {
    return parking_.blocked_among(keys, out);
  }
  Status park(std::span<const ParkRequest> requests) override { return parking_.park(requests); }
  Status take_due(Batch& out, std::vector<std::uint32_t>& attempts, const Limits& limits) override {
    return parking_.take_due(out, attempts, limits);
  }
  Status delivered(std::span<const EventId> ids) override;

 private:
  Parking& parking_;
  MappedSource& source_;
};

}  // namespace dovetail::postgres

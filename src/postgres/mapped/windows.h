// Closes gaps in the log of a mapped table: reads the rows of the table itself that the log does
// not have any more, or never had.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "postgres/connection/connection.h"
#include "postgres/lane/reader.h"
#include "postgres/mapped/catalog.h"
#include "postgres/mapped/table.h"
#include "postgres/outbox/progress_row.h"
#include "postgres/outbox/windows.h"

namespace dovetail::postgres {

// Rows of a mapped table do not say of which transaction they are, but the server does: a row that
// the progress of the lane does not show was written by a transaction that began later, or was open
// then and has ended, or by a part of such a transaction, whose number is higher still. All rows
// from the lowest of these numbers on are read: those that were sent already come twice, and none
// is left out. A row that was deleted meanwhile is gone.
//
// Rows are read in the snapshot in which the stream begins, held open on a connection of its own.
// As long as no such end is set, in one of now, and then in the next: each of them looks through
// the whole table, so there are pauses between them. One thread at a time.
class MappedWindows final : public Windows {
 public:
  // `reader` is shared with the lease and the parking of the lane, and outlives this. Make it
  // first: it says that the lane serves a table of its own.
  MappedWindows(Reader& reader, TableMapping mapping, Clock& clock);

  // Makes the publication of the relay, unless it is there. rejected: the mapping does not fit the
  // table, or there is no such publication and this role may not make it; the text says what to do.
  Status open() override;
  Status read(Batch& out, const Limits& limits, std::stop_token stop) override;
  Status settle(const Batch& batch, std::span<const Settled> fates) override;
  // stopped: another relay has taken the lane over.
  Status flush() override;

  Progress& progress() override { return progress_; }
  bool is_between_windows() const override { return !gap_; }
  // Reads in a snapshot of now: what is newer than `snapshot` comes again out of the log.
  Status end_at(const std::string& snapshot) override;
  Status end_at_exported(const std::string& name, const std::string& snapshot) override;
  bool has_ended() const override { return ended_; }
  void go_on() override;
  std::int64_t table_oid() const override { return table_.oid; }
  Status do_chores() override;

  // Known after open().
  const CatalogTable& table() const { return table_; }
  // Numbers the events of this lane, here and in the log.
  std::int64_t& last_position() { return last_position_; }

 private:
  struct Key {
    std::string at;
    std::int64_t part;
    std::size_t bytes;
  };
  // The rows that are being read.
  struct Gap {
    Connection connection{};
    std::string end{};    // what was handed out when all of them were
    bool is_last = true;  // then the end has come that was set
    std::deque<Key> keys{};
    bool is_asked = false;
    bool has_all_keys = false;
  };

  // An empty snapshot: one of now, which is no end.
  Status begin(const std::string& import, std::string snapshot);
  const std::string& handed_out() const { return progress_.read_to().prev; }
  Status look_for(Gap& gap) const;
  Result<bool> fetch_keys(Duration wait_max);
  Status read_page(Batch& out, const Limits& limits);

  Reader& reader_;
  TableMapping mapping_;
  Clock& clock_;
  CatalogTable table_{};
  ProgressRow row_;
  Progress progress_{false};
  std::optional<Gap> gap_{};
  TimePoint gap_began_{};
  TimePoint begin_at_{};  // the next gap that is no end
  bool ended_ = false;
  bool has_opened_ = false;
  std::int64_t last_position_ = 0;
};

}  // namespace dovetail::postgres

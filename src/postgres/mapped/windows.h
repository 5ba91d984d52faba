// Closes gaps in the WAL stream of a mapped table: reads rows from the table that the WAL does not
// have any more, or never had.
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

// Rows of a mapped table do not name their transaction, but the server knows it. A row that the
// lane's progress does not cover comes from a transaction that began later, or was open then and
// has ended, or from a part of such a transaction, with a higher number. All rows from the lowest
// of these numbers on are read: rows already sent come twice, and none is left out. A row that was
// deleted meanwhile is lost.
//
// Rows are read in the snapshot at which the stream begins; its own connection keeps it open. If no
// such end is set, it reads in a current snapshot and then in the next one. Each reads the whole
// table, so there are pauses between. One thread at a time.
class MappedWindows final : public Windows {
 public:
  // The lane's lease and parking share `reader`, which must outlive this. Make this first: it sets
  // the lane to serve a mapped table.
  MappedWindows(Reader& reader, TableMapping mapping, Clock& clock);

  // Creates the relay's publication if missing. rejected: the mapping does not fit the table, or
  // the publication is missing and this role may not create it; the text has the remedy.
  Status open() override;
  Status read(Batch& out, const Limits& limits, std::stop_token stop) override;
  Status settle(const Batch& batch, std::span<const Settled> fates) override;
  // stopped: another relay has taken the lane.
  Status flush() override;

  Progress& progress() override { return progress_; }
  bool is_between_windows() const override { return !gap_; }
  // Reads in a current snapshot: what is newer than `snapshot` comes again from the WAL.
  Status end_at(const std::string& snapshot) override;
  Status end_at_exported(const std::string& name, const std::string& snapshot) override;
  bool has_ended() const override { return ended_; }
  void go_on() override;
  std::int64_t table_oid() const override { return table_.oid; }
  Status do_chores() override;

  // Valid after open().
  const CatalogTable& table() const { return table_; }
  // The last event number of the lane, for this and the WAL stream.
  std::int64_t& last_position() { return last_position_; }

 private:
  struct Key {
    std::string at;
    std::int64_t part;
    std::size_t bytes;
  };
  // The rows being read.
  struct Gap {
    Connection connection{};
    std::string end{};    // what is covered once all of them are returned
    bool is_last = true;  // then the end that was set is reached
    std::deque<Key> keys{};
    bool is_asked = false;
    bool has_all_keys = false;
  };

  // An empty snapshot: a current one, which is not an end.
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
  TimePoint begin_at_{};  // when the next such gap begins
  bool ended_ = false;
  bool has_opened_ = false;
  std::int64_t last_position_ = 0;
};

}  // namespace dovetail::postgres

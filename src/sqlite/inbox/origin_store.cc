#include "sqlite/inbox/origin_store.h"

#include <utility>

#include "host/host.h"

namespace dovetail::sqlite {

BrokerProgress::BrokerProgress(Reader& reader, Clock& clock) : reader_(reader), clock_(clock) {}

Status BrokerProgress::open() {
  settled_since_ = parked_since_ = skipped_since_ = 0;
  OpenOptions options;
  options.durability = Durability::ordered;
  Result<Database> database = open_store(reader_.path, options);
  if (!database) return fail(database.error());
  database_ = std::move(*database);
  file_ = database_.file();
  DOVETAIL_TRY(ensure_reader(database_, reader_));
  return database_.prepare(update_progress_, kUpdateProgress);
}

Result<std::int64_t> BrokerProgress::last_parked() {
  Statement select;
  DOVETAIL_TRY(database_.prepare(
      select,
      "SELECT coalesce(max(position), 0) FROM dovetail_parked INDEXED BY dovetail_parked_key "
      "WHERE relay = ?1 AND finished_at = 0"));
  const Result<bool> row = select.bind_text(1, reader_.name).step();
  if (!row) return fail(row.error());
  return select.integer(0);
}

void BrokerProgress::add(std::uint64_t settled, std::uint64_t parked, std::uint64_t skipped) {
  settled_since_ += static_cast<std::int64_t>(settled);
  parked_since_ += static_cast<std::int64_t>(parked);
  skipped_since_ += static_cast<std::int64_t>(skipped);
}

Status BrokerProgress::write() {
  if (settled_since_ == 0) return {};
  update_progress_.bind_text(1, reader_.name)
      .bind(2, reader_.epoch)
      .bind(3, 0)
      .bind(4, settled_since_)
      .bind(5, parked_since_)
      .bind(6, to_stored(clock_.wall()))
      .bind(7, skipped_since_);
  DOVETAIL_TRY(update_progress_.run());
  if (update_progress_.changes() == 0)
    return fail(Errc::stopped, "another process took over the relay \"" + reader_.name +
                                   "\"; check that only one process runs it");
  settled_since_ = parked_since_ = skipped_since_ = 0;
  checkpointer_.after_commit(database_.get(), file_);
  return {};
}

SqliteOriginStore::SqliteOriginStore(std::string path, std::string name, std::string target,
                                     Duration lease_term, Clock& clock)
    : reader_{.path = std::move(path),
              .name = std::move(name),
              .source = SourceKind::broker,
              .target = std::move(target)},
      progress_(reader_, clock),
      parking_(reader_, clock),
      lease_(reader_, clock, process_label(), boot_id(), lease_term),
      recorder_(clock, state_writer(reader_, clock)) {}

}  // namespace dovetail::sqlite

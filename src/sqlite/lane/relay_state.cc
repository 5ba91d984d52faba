#include "sqlite/lane/relay_state.h"

#include "core/event/redact.h"
#include "host/host.h"
#include "sqlite/connection/database.h"

namespace dovetail::sqlite {

namespace {

// Nothing is written when another process holds the lease.
constexpr std::string_view kWrite =
    "INSERT INTO dovetail_relay_state (name, epoch, owner, state, since, last_error, next_try, "
    "updated_at, expires, boot) SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10 WHERE NOT EXISTS "
    "(SELECT 1 FROM dovetail_reader WHERE name = ?1 AND owner <> '' AND lease_boot = ?10 AND "
    "lease_expires > ?11 AND epoch <> ?2 AND substr(owner, 1, length(?3) + 1) <> ?3 || '#') "
    "ON CONFLICT (name) DO UPDATE SET epoch = excluded.epoch, owner = excluded.owner, state = "
    "excluded.state, since = excluded.since, last_error = excluded.last_error, next_try = "
    "excluded.next_try, updated_at = excluded.updated_at, expires = excluded.expires, boot = "
    "excluded.boot";

Status write(const std::string& path, const std::string& name, const SpokenState& spoken,
             Clock& clock) {
  OpenOptions options;
  options.durability = Durability::ordered;
  Result<Database> database = open_store(path, options);
  if (!database) return fail(database.error());
  Result<Statement> insert = database->prepare(kWrite);
  if (!insert) return fail(insert.error());
  const WallTime wall = clock.wall();
  const TimePoint now = clock.now();
  // The times are relative to when it was said.
  const WallTime said_at = wall - (now - spoken.said_at);
  const bool tries = spoken.state.next_try > Duration::zero();
  const std::string error = stored_reason(without_secrets(spoken.state.last_error));
  return insert->bind_text(1, name)
      .bind(2, spoken.epoch)
      .bind_text(3, process_label())
      .bind_text(4, to_string(spoken.state.kind))
      .bind(5, to_stored(said_at - spoken.state.since))
      .bind_text(6, error)
      .bind(7, tries ? to_stored(said_at + spoken.state.next_try) : 0)
      .bind(8, to_stored(wall))
      .bind(9, (now + holds_for(spoken, now)).time_since_epoch().count())
      .bind_text(10, boot_id())
      .bind(11, now.time_since_epoch().count())
      .run();
}

}  // namespace

StateRecorder::Write state_writer(const Reader& reader, Clock& clock) {
  return [path = reader.path, name = reader.name, &clock](const SpokenState& spoken) {
    return write(path, name, spoken, clock);
  };
}

}  // namespace dovetail::sqlite

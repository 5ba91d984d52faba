#include "sqlite/lane/relay_state.h"

#include "host/host.h"
#include "sqlite/connection/session.h"
#include "sqlite/lane/statements.h"

namespace dovetail::sqlite {

namespace {

Status write(const std::string& path, const std::string& name, const SpokenState& spoken,
             Clock& clock) {
  SqliteSession session(path, Durability::ordered, clock, boot_id());
  DOVETAIL_TRY(session.connect());
  std::int64_t epoch = spoken.epoch;
  const std::string no_target;
  return write_relay_state(session, lane_statements(), relay_state_statements(),
                           {name, no_target, epoch}, process_label(), spoken, clock.now());
}

}  // namespace

StateRecorder::Write state_writer(const Reader& reader, Clock& clock) {
  return [path = reader.path, name = reader.name, &clock](const SpokenState& spoken) {
    return write(path, name, spoken, clock);
  };
}

}  // namespace dovetail::sqlite

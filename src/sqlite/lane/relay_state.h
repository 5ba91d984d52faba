// Writes the reports of a relay to dovetail_relay_state. They are for people and written without
// fsync.
#pragma once

#include <string>

#include "host/state_recorder.h"
#include "sqlite/lane/reader.h"

namespace dovetail::sqlite {

// Uses its own connections. `clock` must outlive the result.
StateRecorder::Write state_writer(const Reader& reader, Clock& clock);

}  // namespace dovetail::sqlite

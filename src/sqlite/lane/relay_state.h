// What a relay says about itself, as dovetail_relay_state keeps it. For people: nobody waits for
// the disk.
#pragma once

#include <string>

#include "host/state_recorder.h"
#include "sqlite/lane/reader.h"

namespace dovetail::sqlite {

// Has a file keep it, on connections of its own. `clock` outlives what is returned.
StateRecorder::Write state_writer(const Reader& reader, Clock& clock);

}  // namespace dovetail::sqlite

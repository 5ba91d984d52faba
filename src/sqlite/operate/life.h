// What a file knows of one event's way. Each call opens the file, works and closes it.
#pragma once

#include <string>
#include <vector>

#include "core/clock.h"
#include "core/life/life.h"
#include "dovetail/result.h"

namespace dovetail::sqlite {

// As in assembly::Database.
Status fill_relay(const std::string& path, const EventRow& row, life::RelayFacts& relay,
                  Clock& clock);
Result<std::vector<life::HandlerFacts>> list_handlers(const std::string& path, const EventId& id,
                                                      Clock& clock);

}  // namespace dovetail::sqlite

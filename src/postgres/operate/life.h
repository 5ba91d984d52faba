// What a database knows of one event's way. Each call opens a connection, works and closes it.
#pragma once

#include <string>
#include <vector>

#include "core/life/life.h"
#include "dovetail/result.h"
#include "postgres/mapped/table.h"

namespace dovetail::postgres {

// As in assembly::Database.
Status fill_relay(const std::string& url, const EventRow& row, life::RelayFacts& relay);
// What the row of a mapped table says of its times.
Status fill_times(const std::string& url, const TableMapping& mapping, life::OutboxFacts& place);
Result<std::vector<life::HandlerFacts>> list_handlers(const std::string& url, const EventId& id);

}  // namespace dovetail::postgres

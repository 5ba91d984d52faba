// The event columns that every table has, in one order.
#pragma once

#include <cstdint>
#include <string_view>

#include "dovetail/event.h"
#include "sqlite/connection/database.h"

namespace dovetail::sqlite {

// id, topic, aggregate_type, aggregate_id, type, content_type, headers, payload, aggregate_version,
// created_at
inline constexpr std::string_view kEventColumns =
    "id, topic, aggregate_type, aggregate_id, type, content_type, headers, payload, "
    "aggregate_version, created_at";
inline constexpr int kEventColumnCount = 10;

// Views point into the statement until its next step. `first`: the column of the id.
Event read_event(const Statement& statement, std::int64_t position, int first);

// Binds from parameter `first` on. The event's bytes must stay valid until the statement has run.
void bind_event(Statement& statement, const Event& event, int first);

}  // namespace dovetail::sqlite

// Values of rows as the log brings them: in the server's binary form, or as text, as servers before
// 14 do. nullopt: null, or not of such a type.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/event/batch.h"
#include "dovetail/event.h"
#include "postgres/stream/pgoutput.h"

namespace dovetail::postgres {

// Of smallint, integer and bigint.
std::optional<std::int64_t> integer_of(const pgoutput::Value& value);
std::optional<EventId> uuid_of(const pgoutput::Value& value);
// Of a timestamptz; its text in the style ISO, years 0 to 9999.
std::optional<WallTime> time_of(const pgoutput::Value& value);
// Views of the value itself: of text, varchar, json and what else looks alike in both forms.
std::optional<std::string_view> text_of(const pgoutput::Value& value);
// A view of the value itself when it is binary; else it is decoded into the arena.
std::optional<std::string_view> bytea_of(const pgoutput::Value& value, Arena& arena);

}  // namespace dovetail::postgres

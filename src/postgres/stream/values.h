// Column values from the WAL: in binary form, or as text from servers before 14. nullopt: null, or
// another type.
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
// Of a timestamptz; as text in ISO style, years 0 to 9999.
std::optional<WallTime> time_of(const pgoutput::Value& value);
// A view of the value: text, varchar, json and other types with the same bytes in both forms.
std::optional<std::string_view> text_of(const pgoutput::Value& value);
// A view of a binary value; text is decoded into the arena.
std::optional<std::string_view> bytea_of(const pgoutput::Value& value, Arena& arena);

}  // namespace dovetail::postgres

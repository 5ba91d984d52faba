// CloudEvents rules that the writer and the reader of messages share.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "core/event/batch.h"

namespace dovetail {

// Attributes that Dovetail writes; all others count as headers. The last two are extensions.
enum class Attribute : std::uint8_t {
  specversion,
  id,
  source,
  type,
  time,
  subject,
  datacontenttype,
  aggregatetype,
  aggregateversion,
};
inline constexpr std::array<std::string_view, 9> kAttributes = {"specversion",
                                                                "id",
                                                                "source",
                                                                "type",
                                                                "time",
                                                                "subject",
                                                                "datacontenttype",
                                                                "aggregatetype",
                                                                "aggregateversion"};

// Both return `value` itself if nothing changes; else the text is in `arena`.
std::string_view percent_encoded(std::string_view value, Arena& arena);
// Also removes quotes, as the bindings require. Invalid encodings stay as they are.
std::string_view percent_decoded(std::string_view value, Arena& arena);

// Whether two header names are equal.
bool same_name(std::string_view one, std::string_view other, bool ignore_case);

}  // namespace dovetail

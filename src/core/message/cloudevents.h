// What the writer and the reader of messages know of CloudEvents together.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "core/event/batch.h"

namespace dovetail {

// Attributes that Dovetail writes; any other one is a header to it. The last two are extensions.
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

// Both return `value` itself where nothing has to be changed; else the text is in `arena`.
std::string_view percent_encoded(std::string_view value, Arena& arena);
// Takes quotes away as well, as the bindings demand. What is no encoding stays as it is.
std::string_view percent_decoded(std::string_view value, Arena& arena);

// Whether two names of headers are the same.
bool same_name(std::string_view one, std::string_view other, bool ignore_case);

}  // namespace dovetail

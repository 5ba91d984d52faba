// The characters that an HTTP header may have.
#pragma once

#include <string_view>

namespace dovetail::http {

bool is_token(std::string_view text);
// Whether a field may have this value: visible characters, blanks and bytes of other encodings.
bool is_field_value(std::string_view text);

}  // namespace dovetail::http

// Removes passwords from error texts before they are kept or shown.
#pragma once

#include <string>
#include <string_view>

namespace dovetail {

// Replaces passwords by "***": what follows the user in
// "scheme://user:secret@", and the values of password, passwd, secret and token
// after "=" or ":".
std::string without_secrets(std::string_view text);

}  // namespace dovetail

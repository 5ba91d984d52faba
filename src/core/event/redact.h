// Texts of errors that are kept or shown may quote what somebody wrote into a url.
#pragma once

#include <string>
#include <string_view>

namespace dovetail {

// The same text without passwords: "***" stands for what follows the user in
// "scheme://user:secret@" and for the values of password, passwd, secret and token behind "=" or
// ":".
std::string without_secrets(std::string_view text);

}  // namespace dovetail

// Reads passwords, which are never in the config file.
#pragma once

#include <string>

#include "config/config.h"
#include "dovetail/result.h"

namespace dovetail::assembly {

// The password from the variable or file that the store names; empty if it names none. rejected:
// that is missing; the text does not begin with the place in the config file.
Result<std::string> read_password(const config::StoreConfig& store);

}  // namespace dovetail::assembly

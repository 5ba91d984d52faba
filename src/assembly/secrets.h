// Passwords, which are never in the config file.
#pragma once

#include <string>

#include "config/config.h"
#include "dovetail/result.h"

namespace dovetail::assembly {

// Of the variable or the file that the store names; empty when it names none. rejected: it is not
// there; the text does not begin with the place in the config file.
Result<std::string> read_password(const config::StoreConfig& store);

}  // namespace dovetail::assembly

// `${NAME}` in the values of the configuration file: variables of the environment.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "config/keys/section.h"
#include "config/keys/value.h"

namespace dovetail::config {

// (name, value) of every variable that the file uses.
using Variables = std::vector<std::pair<std::string, std::string>>;

// Replaces `${NAME}` in all texts below `value`; `$${` becomes "${". A variable that is not set is
// a problem of its key.
void replace_variables(Value& value, const std::string& key, Variables& used, Problems& problems);

// A value may be a secret, so texts for people have the names instead.
std::string without_values(std::string text, const Variables& used);

}  // namespace dovetail::config

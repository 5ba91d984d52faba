// Reads TOML into values. Only toml.cc knows the TOML library.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "config/keys/value.h"

namespace dovetail::config {

struct TomlError {
  Place place;
  std::string text;
};

// The whole file as one table. Empty, with `error` set: it is not TOML.
std::optional<Value> read_toml(std::string_view text, const std::string& file, TomlError& error);

}  // namespace dovetail::config

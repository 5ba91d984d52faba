// What operators order for a relay, as commands and the API take it and tell it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "commands/command.h"
#include "commands/output.h"
#include "config/config.h"
#include "core/steering.h"

namespace dovetail::app {

Json json_of(const std::string& relay, std::string_view action, const ActionReport& report);

// "beginning", "now", the number of an event, or a time. usage: none of these.
Expected<SeekTo> parse_seek(const std::string& text);

// Whether a relay may get another name. rejected: it is a consumer. usage: the name is not valid.
Expected<bool> check_new_name(const config::Config& config, const std::string& name,
                              const std::string& new_name);

}  // namespace dovetail::app

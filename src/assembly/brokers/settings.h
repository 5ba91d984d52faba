// [store.NAME.settings] of the config file: what only one kind of broker understands. Its file
// declares the keys.
#pragma once

#include <string>
#include <string_view>

#include "config/config.h"
#include "config/keys/setting.h"
#include "dovetail/result.h"

namespace dovetail::assembly {

// rejected: a value does not fit, or a key is not declared. The text begins with the place in the
// file.
Status read_settings(const config::StoreConfig& store, const config::Settings& keys);
// The text of a setting of any broker; empty: it is not there.
std::string text_of(const config::StoreConfig& store, std::string_view key);
// Where a setting is in the file, as errors say it.
std::string place_of(const config::StoreConfig& store, std::string_view key);

// A name in the certificate of the server. `tls`: the url asks for it.
void declare_server_name(std::string& out, const bool& tls, config::Settings& keys);

}  // namespace dovetail::assembly

// [store.NAME.settings] of the config file: keys that only one broker understands. That broker's
// file declares them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "config/keys/setting.h"
#include "dovetail/result.h"

namespace dovetail::assembly {

// rejected: a value is wrong, or a key is not declared. The text begins with the place in the
// file.
Status read_settings(const config::StoreConfig& store, const config::Settings& keys);
// The same into `options`, by the keys that `declare` adds.
template <class Options>
Status read_settings(const config::StoreConfig& store, void (&declare)(Options&, config::Settings&),
                     Options& options) {
  config::Settings keys;
  declare(options, keys);
  return read_settings(store, keys);
}
// These keys, for the reference.
template <class Options>
std::vector<config::KeyReference> describe(void (&declare)(Options&, config::Settings&)) {
  Options options;
  config::Settings keys;
  declare(options, keys);
  return keys.describe();
}
// The text of a setting of any broker; empty if missing.
std::string text_of(const config::StoreConfig& store, std::string_view key);
// The place of a setting in the file, as in error texts.
std::string place_of(const config::StoreConfig& store, std::string_view key);

// The name in the server's certificate. `tls`: whether the url asks for TLS.
void declare_server_name(std::string& out, const bool& tls, config::Settings& keys);

}  // namespace dovetail::assembly

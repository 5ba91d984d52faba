#include "assembly/brokers/settings.h"

#include <functional>

#include "config/brokers.h"
#include "config/keys/section.h"

namespace dovetail::assembly {
namespace {

void with_section(const config::StoreConfig& store,
                  const std::function<void(config::Section&, config::Problems&)>& use) {
  config::Problems problems(store.broker.file.string());
  config::Section section(store.broker.settings, "store." + store.name + ".settings", problems);
  use(section, problems);
}

}  // namespace

Status read_settings(const config::StoreConfig& store, const config::Settings& keys) {
  Status status;
  with_section(store, [&](config::Section& section, config::Problems& problems) {
    section.read(keys);
    if (problems.any()) status = fail(Errc::rejected, problems.first());
  });
  return status;
}

std::string text_of(const config::StoreConfig& store, std::string_view key) {
  std::string text;
  with_section(store,
               [&](config::Section& section, config::Problems&) { text = section.peek(key); });
  return text;
}

std::string place_of(const config::StoreConfig& store, std::string_view key) {
  std::string place;
  with_section(store,
               [&](config::Section& section, config::Problems&) { place = section.place(key); });
  return place;
}

void declare_server_name(std::string& out, const bool& tls, config::Settings& keys) {
  keys.text("server_name", out, "The name that the server's certificate must be for.")
      .otherwise("the host of the url")
      .only_for("TLS", [&tls] { return tls ? std::string() : std::string(config::kWithoutTls); });
}

}  // namespace dovetail::assembly

#include "commands/command.h"

#include <filesystem>
#include <system_error>
#include <vector>

#include "assembly/database.h"
#include "config/keys/variables.h"
#include "config/units.h"

namespace dovetail::app {

using namespace assembly;

std::string_view to_string(Exit code) {
  switch (code) {
    case Exit::ok:
      return "ok";
    case Exit::negative:
      return "negative";
    case Exit::usage:
      return "usage";
    case Exit::config:
      return "config";
    case Exit::unavailable:
      return "unavailable";
    case Exit::rejected:
      return "rejected";
    case Exit::corrupt:
      return "corrupt";
  }
  return "corrupt";
}

tl::unexpected<Failure> refuse(const Error& error) {
  switch (error.code) {
    case Errc::unavailable:
    case Errc::in_doubt:
    case Errc::failed:
    case Errc::stopped:
      return refuse(Exit::unavailable, error.text);
    case Errc::rejected:
      return refuse(Exit::rejected, error.text);
    case Errc::corrupt:
      return refuse(Exit::corrupt, error.text);
  }
  return refuse(Exit::corrupt, error.text);
}

tl::unexpected<Failure> refuse_in(const config::StoreConfig& store, const Error& error) {
  std::string text = "store " + store.name + ": " + error.text;
  std::error_code ignored;
  if (store.scheme == config::StoreScheme::sqlite && error.code == Errc::unavailable &&
      !std::filesystem::exists(store.path, ignored)) {
    text += "; the file does not exist; 'dovetail init' creates it";
  }
  return refuse({error.code, std::move(text)});
}

Expected<config::Config> load(const CommandContext& context) {
  auto config = config::load_config(context.config_file);
  if (!config) return refuse(Exit::config, config.error().text);
  for (config::StoreConfig& store : config->stores) {
    const auto prepared = prepare_store(store);
    if (!prepared)
      return refuse(Exit::config, config::without_values(prepared.error().text, config->variables));
  }
  return std::move(*config);
}

Expected<bool> check_secrets(const config::StoreConfig& store) {
  if (store.unusable.empty()) return true;
  return refuse(Exit::config, store.unusable);
}

Expected<Duration> duration_of(std::string_view text, std::string_view option) {
  const auto value = config::parse_duration(text);
  if (!value) {
    return refuse(Exit::usage,
                  std::string(option) + " must be " + std::string(config::kDurationForm));
  }
  return *value;
}

namespace {

Expected<const config::StoreConfig*> find_store(const config::Config& config,
                                                std::string_view name) {
  std::vector<std::string_view> known;
  std::string list;
  for (const config::StoreConfig& store : config.stores) {
    known.push_back(store.name);
    list += (list.empty() ? "" : ", ") + store.name;
  }
  if (name.empty()) {
    const config::StoreConfig* only = nullptr;
    std::size_t databases = 0;
    for (const config::StoreConfig& store : config.stores) {
      if (store.is_broker()) continue;
      only = &store;
      ++databases;
    }
    if (databases == 1) return only;
    return refuse(Exit::usage, "the config has several stores; choose one with --store: " + list);
  }
  if (const config::StoreConfig* store = config.find_store(name)) return store;
  const std::string_view near = config::nearest_name(name, known);
  std::string text = "the config has no store \"" + std::string(name) + "\"; ";
  if (!near.empty()) text += "did you mean \"" + std::string(near) + "\"? ";
  return refuse(Exit::rejected, text + "Stores in " + config.file.string() + ": " + list);
}

}  // namespace

Expected<const config::StoreConfig*> choose_store(const config::Config& config,
                                                  std::string_view name) {
  const auto store = find_store(config, name);
  if (!store) return store;
  if (const auto checked = check_secrets(**store); !checked) return tl::unexpected(checked.error());
  return store;
}

}  // namespace dovetail::app

#include "commands/command.h"

#include <filesystem>
#include <system_error>
#include <vector>

#include "assembly/stores.h"
#include "config/units.h"

namespace dovetail::app {

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
    case Errc::stopped:
      return refuse(Exit::unavailable, error.text);
    case Errc::rejected:
      return refuse(Exit::rejected, error.text);
    case Errc::corrupt:
      return refuse(Exit::corrupt, error.text);
  }
  return refuse(Exit::corrupt, error.text);
}

tl::unexpected<Failure> refuse_in(const ops::StoreConfig& store, const Error& error) {
  std::string text = "store " + store.name + ": " + error.text;
  std::error_code ignored;
  if (store.scheme == ops::StoreScheme::sqlite && error.code == Errc::unavailable &&
      !std::filesystem::exists(store.path, ignored)) {
    text += "; there is no such file, 'dovetail init' makes it";
  }
  return refuse({error.code, std::move(text)});
}

Expected<ops::Config> load(const Surroundings& around) {
  auto config = ops::load_config(around.config_file);
  if (!config) return refuse(Exit::config, config.error().text);
  for (ops::StoreConfig& store : config->stores) {
    const auto prepared = kind_of(store).prepare(store);
    if (!prepared) return refuse(Exit::config, prepared.error().text);
  }
  return std::move(*config);
}

Expected<bool> check_secrets(const ops::StoreConfig& store) {
  if (store.unusable.empty()) return true;
  return refuse(Exit::config, store.unusable);
}

Expected<Duration> duration_of(std::string_view text, std::string_view option) {
  const auto value = ops::parse_duration(text);
  if (!value) {
    return refuse(Exit::usage, std::string(option) + " must be " + std::string(ops::kDurationForm));
  }
  return *value;
}

namespace {

Expected<const ops::StoreConfig*> find_store(const ops::Config& config, std::string_view name) {
  std::vector<std::string_view> known;
  std::string list;
  for (const ops::StoreConfig& store : config.stores) {
    known.push_back(store.name);
    list += (list.empty() ? "" : ", ") + store.name;
  }
  if (name.empty()) {
    const ops::StoreConfig* only = nullptr;
    std::size_t databases = 0;
    for (const ops::StoreConfig& store : config.stores) {
      if (store.is_broker()) continue;
      only = &store;
      ++databases;
    }
    if (databases == 1) return only;
    return refuse(Exit::usage, "there are several stores; choose one with --store: " + list);
  }
  if (const ops::StoreConfig* store = config.find_store(name)) return store;
  const std::string_view near = ops::nearest_name(name, known);
  std::string text = "no store is called \"" + std::string(name) + "\"; ";
  if (!near.empty()) text += "did you mean \"" + std::string(near) + "\"? ";
  return refuse(Exit::rejected, text + "Stores in " + config.file.string() + ": " + list);
}

}  // namespace

Expected<const ops::StoreConfig*> choose_store(const ops::Config& config, std::string_view name) {
  const auto store = find_store(config, name);
  if (!store) return store;
  if (const auto checked = check_secrets(**store); !checked) return tl::unexpected(checked.error());
  return store;
}

}  // namespace dovetail::app

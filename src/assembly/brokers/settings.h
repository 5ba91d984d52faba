// Reads [store.NAME.settings] of the config file, which each broker's file knows for itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "core/clock.h"
#include "dovetail/result.h"

namespace dovetail::assembly {

// Each getter leaves `out` as it is when the key is absent. The first thing that is wrong is kept
// for finish(). Names of keys must outlive it.
class BrokerSettings {
 public:
  explicit BrokerSettings(const config::BrokerConfig& broker) : broker_(broker) {}

  bool has(std::string_view key);
  void text(std::string_view key, std::string& out);
  void flag(std::string_view key, bool& out);
  template <class Number>
  void number(std::string_view key, Number& out, std::int64_t least, std::int64_t most) {
    if (const auto value = whole_number(key, least, most)) out = static_cast<Number>(*value);
  }
  void duration(std::string_view key, Duration& out, Duration least);    // "10s"
  void size(std::string_view key, std::size_t& out, std::size_t least);  // "1MiB"

  // `what` follows the place of the key.
  void wrong(std::string_view key, std::string_view what);
  // The same for a secret that is not there now, which is no fault of the file.
  void missing(std::string_view key, std::string_view what);

  // rejected: a value does not fit, or there is a key that nobody asked for. unavailable: a secret
  // is missing, and nothing else is wrong. The text begins with the place in the file.
  Status finish() const;

 private:
  const config::BrokerConfig::Setting* find(std::string_view key);
  std::string place_of(std::string_view key);
  std::optional<std::int64_t> whole_number(std::string_view key, std::int64_t least,
                                           std::int64_t most);

  const config::BrokerConfig& broker_;
  std::vector<std::string_view> known_;
  std::string first_problem_;
  std::string missing_;
};

}  // namespace dovetail::assembly

#include "assembly/brokers/settings.h"

#include <algorithm>
#include <charconv>

#include "config/units.h"

namespace dovetail::assembly {

const config::BrokerConfig::Setting* BrokerSettings::find(std::string_view key) {
  if (std::find(known_.begin(), known_.end(), key) == known_.end()) known_.push_back(key);
  const auto found = broker_.settings.find(key);
  return found == broker_.settings.end() ? nullptr : &found->second;
}

bool BrokerSettings::has(std::string_view key) { return find(key) != nullptr; }

void BrokerSettings::text(std::string_view key, std::string& out) {
  if (const auto* setting = find(key)) out = setting->value;
}

void BrokerSettings::flag(std::string_view key, bool& out) {
  const auto* setting = find(key);
  if (setting == nullptr) return;
  if (setting->value != "true" && setting->value != "false") {
    return wrong(key, "must be true or false");
  }
  out = setting->value == "true";
}

void BrokerSettings::duration(std::string_view key, Duration& out, Duration least) {
  const auto* setting = find(key);
  if (setting == nullptr) return;
  const auto value = config::parse_duration(setting->value);
  if (!value) return wrong(key, "must be " + std::string(config::kDurationForm));
  if (*value < least) return wrong(key, "must be at least " + config::human_duration(least));
  out = *value;
}

void BrokerSettings::size(std::string_view key, std::size_t& out, std::size_t least) {
  const auto* setting = find(key);
  if (setting == nullptr) return;
  const auto value = config::parse_size(setting->value);
  if (!value) return wrong(key, "must be " + std::string(config::kSizeForm));
  if (*value < least) return wrong(key, "must be at least " + std::to_string(least) + "B");
  out = *value;
}

std::optional<std::int64_t> BrokerSettings::whole_number(std::string_view key, std::int64_t least,
                                                         std::int64_t most) {
  const auto* setting = find(key);
  if (setting == nullptr) return std::nullopt;
  const std::string& text = setting->value;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value >= least && value <= most) {
    return value;
  }
  wrong(key,
        "must be a whole number from " + std::to_string(least) + " to " + std::to_string(most));
  return std::nullopt;
}

void BrokerSettings::wrong(std::string_view key, std::string_view what) {
  if (first_problem_.empty()) first_problem_ = place_of(key) + ": " + std::string(what);
}

void BrokerSettings::missing(std::string_view key, std::string_view what) {
  if (missing_.empty()) missing_ = place_of(key) + ": " + std::string(what);
}

std::string BrokerSettings::place_of(std::string_view key) {
  const auto* setting = find(key);
  return setting == nullptr ? std::string(key) : setting->where;
}

Status BrokerSettings::finish() const {
  if (!first_problem_.empty()) return fail(Errc::rejected, first_problem_);
  for (const auto& [key, setting] : broker_.settings) {
    if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
    std::string text = setting.where + ": unknown setting; ";
    const std::string_view near = config::nearest_name(key, known_);
    if (!near.empty()) text += "did you mean \"" + std::string(near) + "\"? ";
    text += "Allowed here: ";
    std::string names;
    for (const std::string_view name : known_) {
      if (!names.empty()) names += ", ";
      names += name;
    }
    return fail(Errc::rejected, text + (names.empty() ? "none" : names));
  }
  if (!missing_.empty()) return fail(Errc::unavailable, missing_);
  return {};
}

}  // namespace dovetail::assembly

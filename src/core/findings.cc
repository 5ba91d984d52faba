#include "core/findings.h"

#include <algorithm>
#include <charconv>

namespace dovetail {

namespace {

std::string counted(std::int64_t value, std::string_view one, std::string_view many) {
  return std::to_string(value) + " " + std::string(value == 1 ? one : many);
}

std::string shown_age(Duration age) {
  const std::int64_t seconds = std::chrono::duration_cast<std::chrono::seconds>(age).count();
  if (seconds < 1)
    return counted(std::max<std::int64_t>(age.count() / 1000, 0), "millisecond", "milliseconds");
  if (seconds < 120) return counted(seconds, "second", "seconds");
  if (seconds < 7200) return counted(seconds / 60, "minute", "minutes");
  if (seconds < 172'800) return counted(seconds / 3600, "hour", "hours");
  return counted(seconds / 86'400, "day", "days");
}

std::string shown_bytes(std::int64_t bytes) {
  constexpr std::int64_t kMiB = 1 << 20;
  if (bytes < 1 << 10) return std::to_string(bytes) + " B";
  if (bytes < kMiB) return std::to_string(bytes >> 10) + " KiB";
  if (bytes < 10 * 1024 * kMiB) return std::to_string(bytes / kMiB) + " MiB";
  return std::to_string(bytes / kMiB / 1024) + " GiB";
}

// `place`: what is between the braces.
std::string shown(std::string_view place, const Facts& facts) {
  const std::size_t colon = std::min(place.find(':'), place.size());
  const std::string_view name = place.substr(0, colon);
  if (!facts.has(name)) return "unknown";
  if (colon == place.size()) return std::string(facts.text(name));
  const std::string_view form = place.substr(colon + 1);
  if (form == "age") return shown_age(Duration{facts.number(name)});
  if (form == "bytes") return shown_bytes(facts.number(name));
  const std::size_t bar = std::min(form.find('|'), form.size() - 1);
  return counted(facts.number(name), form.substr(0, bar), form.substr(bar + 1));
}

}  // namespace

Facts& Facts::set(std::string_view name, std::string_view value) {
  all_.insert_or_assign(std::string(name), std::string(value));
  return *this;
}

Facts& Facts::set(const Facts& others) {
  for (const auto& [name, value] : others.all_) set(name, std::string_view(value));
  return *this;
}

bool Facts::has(std::string_view name) const { return all_.find(name) != all_.end(); }

std::string_view Facts::text(std::string_view name) const {
  const auto found = all_.find(name);
  return found == all_.end() ? std::string_view() : std::string_view(found->second);
}

std::int64_t Facts::number(std::string_view name, std::int64_t otherwise) const {
  const std::string_view value = text(name);
  std::int64_t number = otherwise;
  std::from_chars(value.data(), value.data() + value.size(), number);
  return number;
}

bool Facts::is(std::string_view name, std::string_view value) const {
  return has(name) && text(name) == value;
}

void Findings::check(std::span<const Check> checks, const Facts& facts) {
  for (const Check& one : checks)
    if (one.applies == nullptr || one.applies(facts)) add(one, facts);
}

void Findings::add(const Check& check, const Facts& facts) {
  all_.push_back({check.severity.of(facts), std::string(check.code), filled(check.what, facts),
                  filled(check.what_to_do, facts)});
}

std::string filled(std::string_view text, const Facts& facts) {
  std::string result;
  while (!text.empty()) {
    const std::size_t open = std::min(text.find('{'), text.size());
    result += text.substr(0, open);
    text.remove_prefix(open);
    const std::size_t close = text.find('}');
    if (close == std::string_view::npos) return result.append(text);
    result += shown(text.substr(1, close - 1), facts);
    text.remove_prefix(close + 1);
  }
  return result;
}

}  // namespace dovetail

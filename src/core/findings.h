// Doctors as tables: what is known about one thing, and what can be wrong with it.
#pragma once

#include <concepts>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/clock.h"
#include "core/operations.h"

namespace dovetail {

// What is known about one thing: a server, a queue, a setting. Each fact has a name.
class Facts {
 public:
  Facts& set(std::string_view name, std::string_view value);
  Facts& set(std::string_view name, Duration value) { return set(name, value.count()); }
  template <std::integral Value>
  Facts& set(std::string_view name, Value value) {
    if constexpr (std::same_as<Value, bool>)
      return set(name, std::string_view(value ? "true" : "false"));
    else
      return set(name, std::string_view(std::to_string(value)));
  }
  Facts& set(const Facts& others);

  bool has(std::string_view name) const;
  std::string_view text(std::string_view name) const;  // empty: unknown
  // `otherwise`: it is unknown, or no number.
  std::int64_t number(std::string_view name, std::int64_t otherwise = 0) const;
  bool is(std::string_view name, std::string_view value = "true") const;

 private:
  std::map<std::string, std::string, std::less<>> all_;
};

// How bad it is: always the same, or as the facts are.
class Graded {
 public:
  constexpr Graded(Severity always) : always_(always) {}
  template <typename Function>
    requires std::convertible_to<Function, Severity (*)(const Facts&)>
  constexpr Graded(Function by_facts) : by_facts_(by_facts) {}

  Severity of(const Facts& facts) const {
    return by_facts_ == nullptr ? always_ : by_facts_(facts);
  }

 private:
  Severity always_ = Severity::note;
  Severity (*by_facts_)(const Facts&) = nullptr;
};

// One thing that can be wrong. "{name}" in a text is the fact of that name, "unknown" if there is
// none. "{name:age}" shows microseconds as "3 minutes", "{name:bytes}" bytes as "64 MiB", and
// "{name:event|events}" a number with the right word.
struct Check {
  Graded severity;
  std::string_view code;          // does not change, for scripts
  bool (*applies)(const Facts&);  // null: always
  std::string_view what;
  std::string_view what_to_do;
};

class Findings {
 public:
  // Adds those that apply.
  void check(std::span<const Check> checks, const Facts& facts);
  void add(const Check& check, const Facts& facts);
  void add(Finding finding) { all_.push_back(std::move(finding)); }
  std::vector<Finding> take() { return std::move(all_); }

 private:
  std::vector<Finding> all_;
};

// A text with its facts, as in a Check.
std::string filled(std::string_view text, const Facts& facts);

}  // namespace dovetail

// Reads JSON from a NATS server: a view that finds members in the text without building a
// tree.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dovetail::nats {

// A value inside a text, which must outlive it. A missing value, or one of another kind, is absent;
// so a chain of get() needs no checks.
class Json {
 public:
  Json() = default;
  // Of the whole text; absent if it is not JSON, or deeper than 64 levels.
  static Json parse(std::string_view text);

  bool is_there() const { return !raw_.empty(); }
  bool is_null() const { return raw_ == "null"; }
  std::string_view raw() const { return raw_; }

  Json get(std::string_view name) const;       // a member of an object; the first of that name
  std::vector<Json> items() const;             // the items of an array
  std::optional<std::int64_t> number() const;  // an integer
  std::int64_t number_or(std::int64_t other) const { return number().value_or(other); }
  bool is_true() const { return raw_ == "true"; }
  std::string text() const;  // a decoded string; empty if it is not a string

 private:
  explicit Json(std::string_view raw) : raw_(raw) {}
  std::string_view raw_;
};

// A text as a JSON string. Invalid UTF-8 passes unchanged.
std::string quoted(std::string_view text);

}  // namespace dovetail::nats

// Reads the JSON that a NATS server answers with: a view that finds members in the text, without a
// tree.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dovetail::nats {

// A value inside a text that must outlive it. A value that is not there, or is of another kind, is
// told as absent, so that a chain of get() needs no checks in between.
class Json {
 public:
  Json() = default;
  // Of the whole text; absent when it is no JSON, or nested more than 64 levels deep.
  static Json parse(std::string_view text);

  bool is_there() const { return !raw_.empty(); }
  bool is_null() const { return raw_ == "null"; }
  std::string_view raw() const { return raw_; }

  Json get(std::string_view name) const;       // of an object; the first of that name
  std::vector<Json> items() const;             // of an array
  std::optional<std::int64_t> number() const;  // a whole one
  std::int64_t number_or(std::int64_t other) const { return number().value_or(other); }
  bool is_true() const { return raw_ == "true"; }
  std::string text() const;  // of a string, decoded; empty when it is none

 private:
  explicit Json(std::string_view raw) : raw_(raw) {}
  std::string_view raw_;
};

// A text as JSON, with its quotes. What is no UTF-8 is passed as it is.
std::string quoted(std::string_view text);

}  // namespace dovetail::nats

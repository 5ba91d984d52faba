// Reads JSON: a view that finds members in the text without building a tree.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dovetail {

// A value inside a text. A missing value, or one of another kind, is absent; so a chain of get()
// needs no checks.
class Json {
 public:
  Json() = default;
  // Of the whole text; absent if it is not JSON, or deeper than 64 levels. The text must outlive it
  // and its members.
  static Json parse(std::string_view text);
  // The same, with a text that it and its members keep.
  static Json keep(std::string text);

  bool is_there() const { return !raw_.empty(); }
  bool is_null() const { return raw_.empty() || raw_ == "null"; }
  bool is_true() const { return raw_ == "true"; }
  std::string_view raw() const { return raw_; }

  Json get(std::string_view name) const;       // a member of an object; the first of that name
  std::vector<Json> items() const;             // the items of an array
  std::optional<std::int64_t> number() const;  // an integer
  std::int64_t number_or(std::int64_t other) const { return number().value_or(other); }
  // A decoded string; a number, true or false as it is written; else empty.
  std::string text() const;

 private:
  Json(std::string_view raw, std::shared_ptr<const std::string> whole)
      : raw_(raw), whole_(std::move(whole)) {}
  std::string_view raw_;
  std::shared_ptr<const std::string> whole_{};  // null: the caller keeps it
};

// A text as a JSON string. Invalid UTF-8 passes unchanged.
std::string json_text(std::string_view text);

}  // namespace dovetail

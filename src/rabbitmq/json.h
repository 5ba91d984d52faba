// A small JSON reader for the management API.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "dovetail/result.h"

namespace dovetail::rabbitmq {

// One value. A missing value is null, so paths into it need no checks.
class Json {
 public:
  static Result<Json> parse(std::string_view text);

  const Json& operator[](std::string_view name) const;       // a member of an object
  const std::vector<Json>& items() const { return items_; }  // the items of an array
  const std::map<std::string, Json, std::less<>>& fields() const { return fields_; }
  bool is_null() const { return kind_ == Kind::null; }
  bool is_object() const { return kind_ == Kind::object; }
  bool is_true() const { return kind_ == Kind::boolean && text_ == "true"; }
  // The text of a string, number or boolean; else empty.
  const std::string& text() const { return text_; }

 private:
  friend class JsonParser;
  enum class Kind { null, boolean, number, text, array, object };
  Kind kind_ = Kind::null;
  std::string text_;
  std::vector<Json> items_;
  std::map<std::string, Json, std::less<>> fields_;
};

}  // namespace dovetail::rabbitmq

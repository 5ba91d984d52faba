// As much of JSON as it takes to read what the management API says.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "dovetail/result.h"

namespace dovetail::rabbitmq {

// One value. What is not there is a null, so that paths into it need no checks.
class Json {
 public:
  static Result<Json> parse(std::string_view text);

  const Json& operator[](std::string_view name) const;       // of an object
  const std::vector<Json>& items() const { return items_; }  // of an array
  const std::map<std::string, Json, std::less<>>& fields() const { return fields_; }
  bool is_null() const { return kind_ == Kind::null; }
  bool is_object() const { return kind_ == Kind::object; }
  bool is_true() const { return kind_ == Kind::boolean && text_ == "true"; }
  // Of a text, a number or a boolean; empty for all else.
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

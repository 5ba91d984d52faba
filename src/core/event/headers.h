// Reads and writes encoded headers piece by piece, without allocating.
#pragma once

#include <cstddef>
#include <string_view>

#include "core/event/batch.h"
#include "dovetail/result.h"

namespace dovetail {

// What every broker can carry. Name: 1 to 255 letters, digits, '-', '_' and '.'. Value: text
// without control characters, except tabs.
bool is_header_name(std::string_view name);
bool is_header_value(std::string_view value);

// Reads encoded headers from the first to the last. For one thread.
class HeaderScanner {
 public:
  explicit HeaderScanner(std::string_view encoded) : text_(encoded) {}

  // Finds the next header; false after the last. rejected: the text is not encoded headers.
  Result<bool> next();

  // Of the current header, as written between its quotes; see unescaped().
  std::string_view name() const { return name_; }
  std::string_view value() const { return value_; }

 private:
  tl::unexpected<Error> bad(std::string_view why) const;
  Result<bool> end();
  void skip_space();
  bool take(char wanted);
  bool string(std::string_view& out);
  bool escape();
  bool four_digits(std::uint32_t& value);

  std::string_view text_;
  std::size_t at_ = 0;
  bool begun_ = false;
  std::string_view name_;
  std::string_view value_;
};

// The text that a quoted name or value means. Without escapes it is the input itself; else it is
// written to `to`, which needs room for `quoted.size()` bytes, or to `arena`.
std::string_view unescaped(std::string_view quoted, char* to);
std::string_view unescaped(std::string_view quoted, Arena& arena);

// The size of a text in encoded headers, with its quotes.
std::size_t quoted_bytes(std::string_view text);
char* write_quoted(std::string_view text, char* to);

}  // namespace dovetail

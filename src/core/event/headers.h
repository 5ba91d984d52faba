// The codec of headers in pieces, for those who read and write them without allocating.
#pragma once

#include <cstddef>
#include <string_view>

#include "core/event/batch.h"
#include "dovetail/result.h"

namespace dovetail {

// What every broker can carry: letters, digits, '-', '_' and '.' in the name (1 to 255 of them),
// and text without control characters other than tabs in the value.
bool is_header_name(std::string_view name);
bool is_header_value(std::string_view value);

// Goes through encoded headers from the first to the last. Not for several threads.
class HeaderScanner {
 public:
  explicit HeaderScanner(std::string_view encoded) : text_(encoded) {}

  // Finds the next header; false behind the last. rejected: these are no encoded headers.
  Result<bool> next();

  // Of the header found, as it stands between its quotes: see unescaped().
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

// What a name or value of the scanner means. Without escapes that is the text itself; else it is
// written to `to`, which has room for `quoted.size()` bytes, or to `arena`.
std::string_view unescaped(std::string_view quoted, char* to);
std::string_view unescaped(std::string_view quoted, Arena& arena);

// A text as it stands in encoded headers, with its quotes.
std::size_t quoted_bytes(std::string_view text);
char* write_quoted(std::string_view text, char* to);

}  // namespace dovetail

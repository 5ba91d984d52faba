// What the commands print: tables for people, one JSON document for programs.
#pragma once

#include <cstddef>
#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/clock.h"
#include "dovetail/event.h"

namespace dovetail::app {

using Json = nlohmann::ordered_json;

// A column is as wide as its widest cell. A title that begins with '>' aligns it right.
class Table {
 public:
  explicit Table(std::vector<std::string> titles);
  void add(std::vector<std::string> cells);
  std::size_t rows() const { return rows_.size(); }
  // Cuts the last column if a line would be wider than `width_max`.
  std::string to_string(std::optional<std::size_t> width_max = std::nullopt) const;
  // The same without some columns, in the order of `droppable`, until it is narrow enough.
  std::string fitting(std::optional<std::size_t> width_max,
                      const std::vector<std::size_t>& droppable) const;

 private:
  std::vector<std::string> titles_;
  std::vector<bool> right_;
  std::vector<std::vector<std::string>> rows_;
};

bool stdout_is_terminal();
// On a terminal, and nobody has set NO_COLOR.
bool wants_colour();
// Of a terminal, approximately: one per UTF-8 character.
std::size_t columns_of(std::string_view text);
// The width of the terminal at stdout; empty: a file or a pipe, where nothing is cut.
std::optional<std::size_t> terminal_width();

// Breaks lines between words; a word that is longer than a line stays whole. The first line begins
// with `first`, all others with `indent`. Without a width there is one line. It ends with a
// newline.
std::string wrapped(std::string_view text, std::optional<std::size_t> width,
                    std::string_view indent, std::string_view first);
inline std::string wrapped(std::string_view text, std::optional<std::size_t> width,
                           std::string_view indent = {}) {
  return wrapped(text, width, indent, indent);
}
// Help for a terminal that is narrower than its lines; examples stay as one pastes them.
std::string narrowed_help(std::string_view help, std::size_t width);

void print(std::string_view text);  // to stdout, unchanged
void print_json(const Json& document);
void print_json_error(std::string_view code, std::string_view text);

// "3.2 s ago"; "-" if there is no such time.
std::string ago(WallTime time, WallTime now);
WallTime wall_now();

// The reason of a parked event is never longer than this.
inline constexpr std::size_t kWhole = 4000;
// Text from a database for a table: control characters could draw on the terminal.
std::string printable(std::string_view text, std::size_t characters_max = 200);

}  // namespace dovetail::app

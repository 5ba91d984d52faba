#include "commands/output.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include "config/units.h"

namespace dovetail::app {
namespace {

constexpr std::string_view kCut = "...";

std::size_t width(std::string_view text) { return columns_of(text); }

}  // namespace

std::size_t columns_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

Table::Table(std::vector<std::string> titles) : titles_(std::move(titles)) {
  for (std::string& title : titles_) {
    const bool right = !title.empty() && title.front() == '>';
    if (right) title.erase(0, 1);
    right_.push_back(right);
  }
}

void Table::add(std::vector<std::string> cells) {
  cells.resize(titles_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::to_string(std::optional<std::size_t> width_max) const {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < titles_.size(); ++i) {
    std::size_t widest = width(titles_[i]);
    for (const auto& row : rows_) widest = std::max(widest, width(row[i]));
    widths.push_back(widest);
  }
  std::string text;
  constexpr std::size_t kLastMin = 20;  // minimum of the last column on a narrow terminal
  const std::size_t last = titles_.size() - 1;
  if (width_max) {
    std::size_t before = 2 * last;
    for (std::size_t i = 0; i < last; ++i) before += widths[i];
    const std::size_t room = *width_max > before + kLastMin ? *width_max - before : kLastMin;
    widths[last] = std::min(widths[last], room);
  }
  const auto line = [&](std::vector<std::string> cells) {
    std::string one;
    if (width(cells[last]) > widths[last])
      cells[last] = printable(cells[last], widths[last] - kCut.size());
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::string pad(widths[i] - width(cells[i]), ' ');
      if (i != 0) one += "  ";
      one += right_[i] ? pad + cells[i] : cells[i] + pad;
    }
    one.erase(one.find_last_not_of(' ') + 1);
    text += one + "\n";
  };
  line(titles_);
  for (const auto& row : rows_) line(row);
  return text;
}

std::string Table::fitting(std::optional<std::size_t> width_max,
                           const std::vector<std::size_t>& droppable) const {
  std::vector<bool> kept(titles_.size(), true);
  for (std::size_t next = 0;; ++next) {
    std::vector<std::string> titles;
    for (std::size_t i = 0; i < titles_.size(); ++i)
      if (kept[i]) titles.push_back((right_[i] ? ">" : "") + titles_[i]);
    Table table(std::move(titles));
    for (const auto& row : rows_) {
      std::vector<std::string> cells;
      for (std::size_t i = 0; i < row.size(); ++i)
        if (kept[i]) cells.push_back(row[i]);
      table.add(std::move(cells));
    }
    std::string text = table.to_string();
    std::size_t widest = 0;
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = text.find('\n', begin);
      widest = std::max(widest, width(std::string_view(text).substr(begin, end - begin)));
      begin = end + 1;
    }
    if (!width_max || widest <= *width_max) return text;
    if (next == droppable.size()) return table.to_string(width_max);
    kept[droppable[next]] = false;
  }
}

std::optional<std::size_t> terminal_width() {
  winsize size{};
  if (!stdout_is_terminal() || ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
    return std::nullopt;
  return size.ws_col;
}

std::string wrapped(std::string_view text, std::optional<std::size_t> width,
                    std::string_view indent, std::string_view first) {
  std::string out;
  std::string line(first);
  bool is_empty = true;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!is_empty && width && columns_of(line) + 1 + columns_of(word) > *width) {
      out += line + "\n";
      line = indent;
      is_empty = true;
    }
    if (!is_empty) line += ' ';
    line += word;
    is_empty = false;
  }
  return out + line + "\n";
}

std::string narrowed_help(std::string_view help, std::size_t width) {
  constexpr std::size_t kColumn = 30;  // of what is said about an option or a command
  std::string out;
  std::string rest;  // of a line of prose that was too long: the next one goes on with it
  while (!help.empty()) {
    const std::size_t end = std::min(help.find('\n'), help.size());
    std::string line(help.substr(0, end));
    help.remove_prefix(std::min(end + 1, help.size()));
    const bool is_prose = !line.empty() && line.front() != ' ' && !line.starts_with("Usage:");
    if (!rest.empty()) {
      line = is_prose ? rest + " " + line : rest + "\n" + line;
      rest.clear();
    }
    const std::size_t begin = line.rfind('\n') + 1;
    out += line.substr(0, begin);
    line.erase(0, begin);
    const bool has_column =
        line.size() > kColumn && line[kColumn - 1] == ' ' && line[kColumn] != ' ';
    if (columns_of(line) <= width) {
      out += line + "\n";
    } else if (is_prose) {
      const std::string lines = wrapped(line, width);
      const std::size_t last = lines.rfind('\n', lines.size() - 2) + 1;
      out += lines.substr(0, last);
      rest = lines.substr(last, lines.size() - last - 1);
    } else if (has_column) {
      out +=
          wrapped(line.substr(kColumn), width, std::string(kColumn, ' '), line.substr(0, kColumn));
    } else {
      out += line + "\n";
    }
  }
  return rest.empty() ? out : out + rest + "\n";
}

bool stdout_is_terminal() { return ::isatty(STDOUT_FILENO) == 1; }

bool wants_colour() {
  const char* const without = std::getenv("NO_COLOR");
  return stdout_is_terminal() && (without == nullptr || *without == '\0');
}

void print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void print_json(const Json& document) {
  print(document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

void print_json_error(std::string_view code, std::string_view text) {
  print_json(Json{{"error", {{"code", code}, {"text", text}}}});
}

std::string ago(WallTime time, WallTime now) {
  if (time == WallTime{}) return "-";
  return config::human_duration(std::max(now - time, Duration::zero())) + " ago";
}

WallTime wall_now() {
  return std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::system_clock::now());
}

std::string printable(std::string_view text, std::size_t characters_max) {
  std::string out;
  std::size_t characters = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte & 0xC0) != 0x80 && ++characters > characters_max) return out + std::string(kCut);
    out += byte < 0x20 || byte == 0x7F ? '?' : c;
  }
  return out;
}

}  // namespace dovetail::app

// How the tables of the configuration file are read: every key is known, every value has its place.
// Only for the files that read the configuration; those of the TOML library stay behind it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/clock.h"

namespace dovetail::config {

std::string join(const std::vector<std::string_view>& names);
std::string in_quotes(std::string_view text);

// Where something stands in the file; line 0: nobody knows.
struct Place {
  std::uint32_t line = 0;
  std::uint32_t column = 0;
};

// Keeps the first thing that is wrong with the file.
class Problems {
 public:
  explicit Problems(const std::filesystem::path& file) : file_(file.string()) {}

  void add(Place where, std::string_view key, std::string_view what);
  std::string place(Place where, std::string_view key) const;
  bool any() const { return !first_.empty(); }
  const std::string& first() const { return first_; }

 private:
  std::string file_;
  std::string first_;
};

// One table of the file. Each getter leaves `out` as it is when the key is absent, and reports when
// the value does not fit. close() reports keys that nobody asked for.
class Section {
 public:
  // Reads the whole file with `read`; what is not TOML is a problem.
  static void read_document(std::string_view text, const std::string& file, Problems& problems,
                            const std::function<void(Section& root)>& read);

  bool has(std::string_view key);
  void require(std::string_view key);

  void text(std::string_view key, std::string& out);
  // The same, where an empty string means something.
  void text_or_none(std::string_view key, std::map<std::string, std::string, std::less<>>& out);
  // A string, a whole number or a flag, as text.
  void plain(std::string_view key, std::string& out);
  void flag(std::string_view key, std::optional<bool>& out);
  void texts(std::string_view key, std::vector<std::string>& out, bool one_is_enough = false);
  // Replaces what is in `out`.
  void numbers(std::string_view key, std::vector<int>& out, int least, int most);
  void duration(std::string_view key, Duration& out, Duration least);
  void size(std::string_view key, std::size_t& out, std::size_t least);

  template <class Number>
  void number(std::string_view key, Number& out, std::int64_t least, std::int64_t most) {
    if (const auto value = whole_number(key, least, most)) out = static_cast<Number>(*value);
  }

  template <class Enum>
  void choice(std::string_view key, Enum& out,
              const std::vector<std::pair<std::string_view, Enum>>& choices) {
    std::vector<std::string_view> names;
    for (const auto& [name, meaning] : choices) names.push_back(name);
    if (const auto chosen = one_of(key, names)) out = choices[*chosen].second;
  }

  void wrong(std::string_view key, std::string_view what);
  void wrong_here(std::string_view what);
  // Where a key stands, as errors say it.
  std::string place(std::string_view key) const;

  using Read = std::function<void(Section&)>;
  // Reads the table of that name, when there is one.
  void table(std::string_view key, const Read& read);
  // Reads every table below [key.NAME]. `form` says how that is written.
  using ReadNamed = std::function<void(std::string_view name, Section&)>;
  void named_tables(std::string_view key, std::string_view form, const ReadNamed& read);
  // Reads every [[key]].
  void repeated_table(std::string_view key, const Read& read);
  // Calls `read` with every key of this table, where any name is one.
  void each_key(const std::function<void(std::string_view key)>& read);

  void close();

 private:
  struct Table;  // of the TOML library
  Section(std::shared_ptr<const Table> table, std::string name, Problems& problems);

  void know(std::string_view key);
  std::string full(std::string_view key) const;
  Place place_of(std::string_view key) const;
  std::optional<std::int64_t> whole_number(std::string_view key, std::int64_t least,
                                           std::int64_t most);
  std::optional<std::size_t> one_of(std::string_view key,
                                    const std::vector<std::string_view>& names);

  std::shared_ptr<const Table> table_;
  std::string name_;
  Problems& problems_;
  std::vector<std::string_view> known_;
};

}  // namespace dovetail::config

// Reads one table of the configuration file. Every key must be declared, and every problem names
// its place.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "config/keys/setting.h"
#include "config/keys/value.h"

namespace dovetail::config {

// Keeps the first problem of the file.
class Problems {
 public:
  explicit Problems(std::string file) : file_(std::move(file)) {}

  void add(Place where, std::string_view key, std::string_view what);
  // "file:line:column: key"
  std::string place(Place where, std::string_view key) const;
  bool any() const { return !first_.empty(); }
  const std::string& first() const { return first_; }

 private:
  std::string file_;
  std::string first_;
};

class Section {
 public:
  // `table` and `problems` must outlive it. `name`: "store.orders"; empty: the whole file.
  Section(const Value& table, std::string name, Problems& problems)
      : table_(table), name_(std::move(name)), problems_(problems) {}

  // Reads every key into its variable, which keeps its value if the key is missing. Reports wrong
  // values, missing keys and undeclared keys.
  void read(const Settings& settings);

  const Value& value() const { return table_; }
  bool has(std::string_view key) const { return table_.find(key) != nullptr; }
  // The text of a key that decides how to read the table. Reports nothing. Empty: missing.
  std::string peek(std::string_view key) const;

  void wrong(std::string_view key, std::string_view what);
  void wrong_here(std::string_view what);
  // The place of a key, as in error texts.
  std::string place(std::string_view key) const;

  using Read = std::function<void(Section&)>;
  // Reads the table of that name, if it exists.
  void table(std::string_view key, const Read& read);
  // Reads every table below [key.NAME].
  using ReadNamed = std::function<void(const std::string& name, Section&)>;
  void named_tables(std::string_view key, const ReadNamed& read);
  // Reads every [[key]].
  void repeated_table(std::string_view key, const Read& read);
  // Calls `read` for every key of a table that allows any key.
  void each(const std::function<void(const std::string& key, const Value& value)>& read) const;

 private:
  std::string full(std::string_view key) const;
  Place place_of(std::string_view key) const;
  void report_undeclared(const Settings& settings);

  const Value& table_;
  std::string name_;
  Problems& problems_;
};

}  // namespace dovetail::config

// One table of the configuration file while it is read: every key is declared, every problem names
// its place.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "config/keys/setting.h"
#include "config/keys/value.h"

namespace dovetail::config {

// Keeps the first thing that is wrong with the file.
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
  // `table` and `problems` must outlive it. `name`: as in "store.orders"; empty: the whole file.
  Section(const Value& table, std::string name, Problems& problems)
      : table_(table), name_(std::move(name)), problems_(problems) {}

  // Reads every key into its variable, which stays as it is where the key is absent. Reports values
  // that do not fit, keys that are missing, and keys that are not declared.
  void read(const Settings& settings);

  const Value& value() const { return table_; }
  bool has(std::string_view key) const { return table_.find(key) != nullptr; }
  // The text of a key that decides how the table is read; nothing is reported. Empty: none.
  std::string peek(std::string_view key) const;

  void wrong(std::string_view key, std::string_view what);
  void wrong_here(std::string_view what);
  // Where a key is, as errors say it.
  std::string place(std::string_view key) const;

  using Read = std::function<void(Section&)>;
  // Reads the table of that name, if there is one.
  void table(std::string_view key, const Read& read);
  // Reads every table below [key.NAME].
  using ReadNamed = std::function<void(const std::string& name, Section&)>;
  void named_tables(std::string_view key, const ReadNamed& read);
  // Reads every [[key]].
  void repeated_table(std::string_view key, const Read& read);
  // Calls `read` with every key of this table, where any name is a key.
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

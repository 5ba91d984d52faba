// The keys of a table of the configuration file. Each key is declared once: its type, its range and
// its help, and the variable that it is read into, which holds the default. The reader, error
// texts, `dovetail config` and docs/CONFIG.md all follow from the declaration.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/keys/value.h"
#include "core/clock.h"

namespace dovetail::config {

std::string join(const std::vector<std::string_view>& names);
std::string in_quotes(std::string_view text);

// What people and editors can know about a key.
struct KeyReference {
  std::string key;
  std::string type;  // "duration"
  std::string help;
  std::string allowed{};               // of the values of the type; empty: all
  std::vector<std::string> choices{};  // these only
  std::optional<Value> initial{};      // the default
  std::string otherwise{};             // what holds without the key, where that is no fixed value
  std::string only_for{};              // "PostgreSQL"; empty: for all
  std::string page{};                  // of docs/, with more about it
  bool is_required = false;
};

// One key as it is declared. What is said about it here holds for the reader, too.
class Setting {
 public:
  Setting& required();
  // What holds without the key. The variable holds no default then.
  Setting& otherwise(std::string text);
  Setting& see(std::string page);
  // One more sentence of help.
  Setting& also(const std::string& sentence);
  // `why_not` says why it cannot be used here, or nothing; it is asked when all keys were read.
  Setting& only_for(std::string whom, std::function<std::string()> why_not);
  // `wrong` says what is wrong with the variable, or nothing; it is asked when the key was read.
  Setting& check(std::function<std::string()> wrong);

 private:
  friend class Settings;
  friend class Section;
  using Take = std::function<std::string(const Value&)>;  // what is wrong with it

  KeyReference reference_;
  Take take_;  // none: it is a table, which is read by itself
  std::function<std::string()> why_not_;
  std::function<std::string()> wrong_;
};

// The keys of one table, in the order of the reference. What they are read into must outlive them.
class Settings {
 public:
  using Texts = std::vector<std::string>;
  // As errors and the reference call a choice, and what it means.
  template <class Meaning>
  using Choices = std::vector<std::pair<std::string_view, Meaning>>;

  Setting& text(std::string key, std::string& out, std::string help);
  // The same, where an empty text means something.
  Setting& text_or_empty(std::string key, std::string& out, std::string help);
  // A text, a whole number or a flag, as text: for those who judge it later.
  Setting& any_text(std::string key, std::string& out, std::string help);
  Setting& flag(std::string key, bool& out, std::string help);
  Setting& flag(std::string key, std::optional<bool>& out, std::string help);
  Setting& duration(std::string key, Duration& out, Duration least, std::string help);
  Setting& duration(std::string key, std::optional<Duration>& out, Duration least,
                    std::string help);
  Setting& size(std::string key, std::size_t& out, std::size_t least, std::string help);
  // A list; what it holds before is the default and is replaced.
  Setting& texts(std::string key, Texts& out, std::string help);
  Setting& one_or_more_texts(std::string key, Texts& out, std::string help);
  Setting& numbers(std::string key, std::vector<int>& out, int least, int most, std::string help);
  // A path, relative to `folder`.
  Setting& file(std::string key, std::string& out, const std::filesystem::path& folder,
                std::string help);
  Setting& file(std::string key, std::filesystem::path& out, const std::filesystem::path& folder,
                std::string help);
  // `take` says what is wrong with the text, or takes it.
  Setting& parsed(std::string key, std::string form, std::function<std::string(std::string)> take,
                  std::string help);
  // Declared here and read by the caller: [NAME.key], [[NAME.key]].
  Setting& table(std::string key, std::string help);
  Setting& tables(std::string key, std::string help);

  template <class Number>
  Setting& number(std::string key, Number& out, std::int64_t least, std::int64_t most,
                  std::string help) {
    return whole_number(std::move(key), static_cast<std::int64_t>(out), least, most,
                        std::move(help),
                        [&out](std::int64_t value) { out = static_cast<Number>(value); });
  }

  template <class Meaning>
  Setting& choice(std::string key, Meaning& out, const Choices<Meaning>& choices,
                  std::string help) {
    std::vector<std::string> names;
    std::string initial;
    for (const auto& [name, meaning] : choices) {
      names.emplace_back(name);
      if (meaning == out) initial = name;
    }
    return one_of(std::move(key), std::move(names), std::move(initial), std::move(help),
                  [&out, choices](std::size_t chosen) { out = choices[chosen].second; });
  }

  // A key that is declared already, to add to it.
  Setting& at(std::string_view key);

  // Keys that a file may still have: the error says what to write.
  void renamed(std::string old_key, std::string new_key, std::string note = {});
  void removed(std::string key, std::string what);

  // For the reference. A default that its own range refuses is our bug, and ends the process.
  std::vector<KeyReference> describe() const;

 private:
  friend class Section;
  using Take = Setting::Take;

  Setting& add(std::string key, std::string type, std::string help, Take take);
  Setting& whole_number(std::string key, std::int64_t initial, std::int64_t least,
                        std::int64_t most, std::string help, std::function<void(std::int64_t)> set);
  Setting& one_of(std::string key, std::vector<std::string> names, std::string initial,
                  std::string help, std::function<void(std::size_t)> choose);
  Setting& duration_of(std::string key, Duration least, std::string help,
                       std::function<void(Duration)> set);
  Setting& file_of(std::string key, const std::filesystem::path& folder, std::string help,
                   std::function<void(std::filesystem::path)> set);
  Setting& texts_of(std::string key, bool one_is_enough, Texts& out, std::string help);
  const Setting* find(std::string_view key) const;

  struct Gone {
    std::string key;
    std::string what;
  };
  std::deque<Setting> all_;  // what add() returns stays where it is
  std::vector<Gone> gone_;
};

}  // namespace dovetail::config

// The keys of one table of the configuration file. Each key is declared once: type, range, help,
// and the variable with its default. The reader, error texts, `dovetail config` and docs/CONFIG.md
// all come from the declaration.
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

// What the reference says about a key.
struct KeyReference {
  std::string key;
  std::string type;  // "duration"
  std::string help;
  std::string allowed{};               // of the type's values; empty: all
  std::vector<std::string> choices{};  // only these values
  std::optional<Value> initial{};      // the default
  std::string otherwise{};             // what applies without the key, if that is not a fixed value
  std::string only_for{};              // "PostgreSQL"; empty: all stores
  std::string page{};                  // the page in docs/ with more about it
  bool is_required = false;
};

// The declaration of one key, for the reader and the reference.
class Setting {
 public:
  Setting& required();
  // What applies without the key. The variable then has no default.
  Setting& otherwise(std::string text);
  Setting& see(std::string page);
  // Adds a sentence to the help.
  Setting& also(const std::string& sentence);
  // `why_not` returns why the key cannot be used here, or nothing; called after all keys are read.
  Setting& only_for(std::string whom, std::function<std::string()> why_not);
  // `wrong` returns what is wrong with the variable, or nothing; called after the key is read.
  Setting& check(std::function<std::string()> wrong);

 private:
  friend class Settings;
  friend class Section;
  using Take = std::function<std::string(const Value&)>;  // returns what is wrong with it

  KeyReference reference_;
  Take take_;  // empty: a table, which is read separately
  std::function<std::string()> why_not_;
  std::function<std::string()> wrong_;
};

// The keys of one table, in the order of the reference. Their variables must outlive them.
class Settings {
 public:
  using Texts = std::vector<std::string>;
  // The name of a choice, in errors and the reference, and its meaning.
  template <class Meaning>
  using Choices = std::vector<std::pair<std::string_view, Meaning>>;

  Setting& text(std::string key, std::string& out, std::string help);
  // The same, if an empty text has a meaning.
  Setting& text_or_empty(std::string key, std::string& out, std::string help);
  // A text, an integer or a flag, as text that another function checks later.
  Setting& any_text(std::string key, std::string& out, std::string help);
  Setting& flag(std::string key, bool& out, std::string help);
  Setting& flag(std::string key, std::optional<bool>& out, std::string help);
  Setting& duration(std::string key, Duration& out, Duration least, std::string help);
  Setting& duration(std::string key, std::optional<Duration>& out, Duration least,
                    std::string help);
  Setting& size(std::string key, std::size_t& out, std::size_t least, std::string help);
  Setting& size(std::string key, std::int64_t& out, std::size_t least, std::string help);
  // A list; its initial value is the default and is replaced.
  Setting& texts(std::string key, Texts& out, std::string help);
  Setting& one_or_more_texts(std::string key, Texts& out, std::string help);
  Setting& numbers(std::string key, std::vector<int>& out, int least, int most, std::string help);
  // A path, relative to `folder`.
  Setting& file(std::string key, std::string& out, const std::filesystem::path& folder,
                std::string help);
  Setting& file(std::string key, std::filesystem::path& out, const std::filesystem::path& folder,
                std::string help);
  // `take` stores the text, or returns what is wrong with it.
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

  // Finds a declared key, to add to it.
  Setting& at(std::string_view key);

  // A key of older versions: the error names the new one.
  void renamed(std::string old_key, std::string new_key, std::string note = {});
  void removed(std::string key, std::string what);

  // For the reference. Ends the process if a default is outside its own range: that is our bug.
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
  template <class Number>
  Setting& size_of(std::string key, Number& out, std::size_t least, std::string help);
  Setting& texts_of(std::string key, bool one_is_enough, Texts& out, std::string help);
  const Setting* find(std::string_view key) const;

  struct Gone {
    std::string key;
    std::string what;
  };
  std::deque<Setting> all_;  // a deque, because references from add() must stay valid
  std::vector<Gone> gone_;
};

}  // namespace dovetail::config

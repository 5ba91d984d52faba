#include "config/keys/setting.h"

#include <algorithm>
#include <utility>

#include "config/units.h"
#include "core/check.h"

namespace dovetail::config {
namespace {

namespace fs = std::filesystem;

Value value_of(std::string text) { return {std::move(text)}; }
Value value_of(const std::vector<std::string>& texts) {
  Value::List list;
  for (const std::string& text : texts) list.push_back(value_of(text));
  return {std::move(list)};
}

std::string must_be(std::string_view form) { return "must be " + std::string(form); }

// A non-empty text.
std::string take_text(const Value& value, std::string& out) {
  const auto* text = value.as<std::string>();
  if (text == nullptr) return must_be("a string");
  if (text->empty()) return "must not be empty";
  out = *text;
  return {};
}

std::string take_flag(const Value& value, bool& out) {
  const auto* flag = value.as<bool>();
  if (flag == nullptr) return must_be("true or false");
  out = *flag;
  return {};
}

std::string take_texts(const Value& value, bool one_is_enough, std::vector<std::string>& out) {
  const std::string form =
      one_is_enough ? must_be("a string, or a list of strings") : must_be("a list of strings");
  std::vector<std::string> texts;
  if (const auto* list = value.as<Value::List>()) {
    for (const Value& item : *list) {
      if (!take_text(item, texts.emplace_back()).empty()) return form;
    }
  } else if (!one_is_enough || !take_text(value, texts.emplace_back()).empty()) {
    return form;
  }
  out = std::move(texts);
  return {};
}

}  // namespace

std::string join(const std::vector<std::string_view>& names) {
  std::string text;
  for (const std::string_view name : names) {
    if (!text.empty()) text += ", ";
    text += name;
  }
  return text;
}

std::string in_quotes(std::string_view text) { return "\"" + std::string(text) + "\""; }

Setting& Setting::required() {
  reference_.is_required = true;
  reference_.initial.reset();
  return *this;
}

Setting& Setting::otherwise(std::string text) {
  reference_.otherwise = std::move(text);
  reference_.initial.reset();
  return *this;
}

Setting& Setting::see(std::string page) {
  reference_.page = std::move(page);
  return *this;
}

Setting& Setting::also(const std::string& sentence) {
  reference_.help += " " + sentence;
  return *this;
}

Setting& Setting::only_for(std::string whom, std::function<std::string()> why_not) {
  reference_.only_for = std::move(whom);
  why_not_ = std::move(why_not);
  return *this;
}

Setting& Setting::check(std::function<std::string()> wrong) {
  wrong_ = std::move(wrong);
  return *this;
}

Setting& Settings::add(std::string key, std::string type, std::string help, Take take) {
  Setting& setting = all_.emplace_back();
  setting.reference_.key = std::move(key);
  setting.reference_.type = std::move(type);
  setting.reference_.help = std::move(help);
  setting.take_ = std::move(take);
  return setting;
}

Setting& Settings::text(std::string key, std::string& out, std::string help) {
  Setting& setting = add(std::move(key), "text", std::move(help),
                         [&out](const Value& value) { return take_text(value, out); });
  if (!out.empty()) setting.reference_.initial = value_of(out);
  return setting;
}

Setting& Settings::text_or_empty(std::string key, std::string& out, std::string help) {
  Setting& setting =
      add(std::move(key), "text", std::move(help), [&out](const Value& value) -> std::string {
        const auto* text = value.as<std::string>();
        if (text == nullptr) return must_be("a string");
        out = *text;
        return {};
      });
  if (!out.empty()) setting.reference_.initial = value_of(out);
  return setting;
}

Setting& Settings::any_text(std::string key, std::string& out, std::string help) {
  return add(std::move(key), "text", std::move(help), [&out](const Value& value) -> std::string {
    if (const auto* text = value.as<std::string>()) {
      out = *text;
    } else if (value.as<std::int64_t>() != nullptr || value.as<bool>() != nullptr) {
      out = to_toml(value);
    } else {
      return must_be("a string, a whole number, true or false");
    }
    return {};
  });
}

Setting& Settings::flag(std::string key, bool& out, std::string help) {
  Setting& setting = add(std::move(key), "flag", std::move(help),
                         [&out](const Value& value) { return take_flag(value, out); });
  setting.reference_.initial = Value{out};
  return setting;
}

Setting& Settings::flag(std::string key, std::optional<bool>& out, std::string help) {
  return add(std::move(key), "flag", std::move(help),
             [&out](const Value& value) { return take_flag(value, out.emplace()); });
}

Setting& Settings::duration_of(std::string key, Duration least, std::string help,
                               std::function<void(Duration)> set) {
  Setting& setting = add(std::move(key), "duration", std::move(help),
                         [set = std::move(set), least](const Value& value) -> std::string {
                           const auto* text = value.as<std::string>();
                           const auto duration =
                               text != nullptr ? parse_duration(*text) : std::nullopt;
                           if (!duration) return must_be(kDurationForm);
                           if (*duration < least)
                             return must_be("at least " + human_duration(least));
                           set(*duration);
                           return {};
                         });
  if (least > Duration::zero()) setting.reference_.allowed = "at least " + write_duration(least);
  return setting;
}

Setting& Settings::duration(std::string key, Duration& out, Duration least, std::string help) {
  Setting& setting =
      duration_of(std::move(key), least, std::move(help), [&out](Duration value) { out = value; });
  setting.reference_.initial = value_of(write_duration(out));
  return setting;
}

Setting& Settings::duration(std::string key, std::optional<Duration>& out, Duration least,
                            std::string help) {
  return duration_of(std::move(key), least, std::move(help),
                     [&out](Duration value) { out = value; });
}

template <class Number>
Setting& Settings::size_of(std::string key, Number& out, std::size_t least, std::string help) {
  Setting& setting = add(std::move(key), "size", std::move(help),
                         [&out, least](const Value& value) -> std::string {
                           const auto* text = value.as<std::string>();
                           const auto size = text != nullptr ? parse_size(*text) : std::nullopt;
                           if (!size) return must_be(kSizeForm);
                           if (*size < least) return must_be("at least " + write_size(least));
                           if (!std::in_range<Number>(*size)) return must_be(kSizeForm);
                           out = static_cast<Number>(*size);
                           return {};
                         });
  if (least > 1) setting.reference_.allowed = "at least " + write_size(least);
  setting.reference_.initial = value_of(write_size(static_cast<std::size_t>(out)));
  return setting;
}

Setting& Settings::size(std::string key, std::size_t& out, std::size_t least, std::string help) {
  return size_of(std::move(key), out, least, std::move(help));
}

Setting& Settings::size(std::string key, std::int64_t& out, std::size_t least, std::string help) {
  return size_of(std::move(key), out, least, std::move(help));
}

Setting& Settings::texts_of(std::string key, bool one_is_enough, Texts& out, std::string help) {
  Setting& setting = add(
      std::move(key), one_is_enough ? "text, or list of texts" : "list of texts", std::move(help),
      [&out, one_is_enough](const Value& value) { return take_texts(value, one_is_enough, out); });
  if (!out.empty()) setting.reference_.initial = value_of(out);
  return setting;
}

Setting& Settings::texts(std::string key, Texts& out, std::string help) {
  return texts_of(std::move(key), false, out, std::move(help));
}

Setting& Settings::one_or_more_texts(std::string key, Texts& out, std::string help) {
  return texts_of(std::move(key), true, out, std::move(help));
}

Setting& Settings::numbers(std::string key, std::vector<int>& out, int least, int most,
                           std::string help) {
  const std::string range = std::to_string(least) + " to " + std::to_string(most);
  Setting& setting = add(std::move(key), "list of numbers", std::move(help),
                         [&out, least, most, range](const Value& value) -> std::string {
                           const auto* list = value.as<Value::List>();
                           std::vector<int> numbers;
                           for (const Value& item : list != nullptr ? *list : Value::List{}) {
                             const auto* number = item.as<std::int64_t>();
                             if (number == nullptr || *number < least || *number > most)
                               list = nullptr;
                             if (list == nullptr) break;
                             numbers.push_back(static_cast<int>(*number));
                           }
                           if (list == nullptr)
                             return must_be("a list of whole numbers from " + range);
                           out = std::move(numbers);
                           return {};
                         });
  setting.reference_.allowed = range;
  Value::List initial;
  for (const int number : out) initial.push_back({std::int64_t{number}});
  if (!out.empty()) setting.reference_.initial = Value{std::move(initial)};
  return setting;
}

Setting& Settings::file_of(std::string key, const fs::path& folder, std::string help,
                           std::function<void(fs::path)> set) {
  return parsed(
      std::move(key), "file",
      [set = std::move(set), folder](const std::string& written) {
        set((folder / written).lexically_normal());
        return std::string();
      },
      std::move(help));
}

Setting& Settings::file(std::string key, fs::path& out, const fs::path& folder, std::string help) {
  return file_of(std::move(key), folder, std::move(help),
                 [&out](fs::path path) { out = std::move(path); });
}

Setting& Settings::file(std::string key, std::string& out, const fs::path& folder,
                        std::string help) {
  return file_of(std::move(key), folder, std::move(help),
                 [&out](const fs::path& path) { out = path.string(); });
}

Setting& Settings::parsed(std::string key, std::string form,
                          std::function<std::string(std::string)> take, std::string help) {
  return add(std::move(key), std::move(form), std::move(help),
             [take = std::move(take)](const Value& value) {
               std::string text;
               std::string wrong = take_text(value, text);
               return wrong.empty() ? take(std::move(text)) : wrong;
             });
}

Setting& Settings::table(std::string key, std::string help) {
  return add(std::move(key), "table", std::move(help), nullptr);
}

Setting& Settings::tables(std::string key, std::string help) {
  return add(std::move(key), "tables", std::move(help), nullptr);
}

Setting& Settings::whole_number(std::string key, std::int64_t initial, std::int64_t least,
                                std::int64_t most, std::string help,
                                std::function<void(std::int64_t)> set) {
  const std::string range = std::to_string(least) + " to " + std::to_string(most);
  Setting& setting =
      add(std::move(key), "number", std::move(help),
          [set = std::move(set), least, most, range](const Value& value) -> std::string {
            const auto* number = value.as<std::int64_t>();
            if (number == nullptr || *number < least || *number > most)
              return must_be("a whole number from " + range);
            set(*number);
            return {};
          });
  setting.reference_.allowed = range;
  setting.reference_.initial = Value{initial};
  return setting;
}

Setting& Settings::one_of(std::string key, std::vector<std::string> names, std::string initial,
                          std::string help, std::function<void(std::size_t)> choose) {
  Setting& setting = add(std::move(key), "choice", std::move(help),
                         [names, choose = std::move(choose)](const Value& value) -> std::string {
                           const auto* text = value.as<std::string>();
                           std::string allowed;
                           for (std::size_t i = 0; i < names.size(); ++i) {
                             if (text != nullptr && *text == names[i]) {
                               choose(i);
                               return {};
                             }
                             allowed += (allowed.empty() ? "" : ", ") + in_quotes(names[i]);
                           }
                           return must_be("one of " + allowed);
                         });
  setting.reference_.choices = std::move(names);
  if (!initial.empty()) setting.reference_.initial = value_of(std::move(initial));
  return setting;
}

Setting& Settings::at(std::string_view key) {
  const auto found = std::find_if(all_.begin(), all_.end(), [key](const Setting& setting) {
    return setting.reference_.key == key;
  });
  DOVETAIL_CHECK(found != all_.end());
  return *found;
}

void Settings::renamed(std::string old_key, std::string new_key, std::string note) {
  DOVETAIL_CHECK(find(new_key) != nullptr);
  std::string what = "is now called " + in_quotes(new_key) + "; rename it";
  if (!note.empty()) what += ". " + note;
  gone_.push_back({std::move(old_key), std::move(what)});
}

void Settings::removed(std::string key, std::string what) {
  gone_.push_back({std::move(key), std::move(what)});
}

const Setting* Settings::find(std::string_view key) const {
  const auto found = std::find_if(all_.begin(), all_.end(), [key](const Setting& setting) {
    return setting.reference_.key == key;
  });
  return found == all_.end() ? nullptr : &*found;
}

std::vector<KeyReference> Settings::describe() const {
  std::vector<KeyReference> keys;
  for (const Setting& setting : all_) {
    const KeyReference& reference = setting.reference_;
    if (reference.initial) DOVETAIL_CHECK(setting.take_(*reference.initial).empty());
    keys.push_back(reference);
  }
  return keys;
}

}  // namespace dovetail::config

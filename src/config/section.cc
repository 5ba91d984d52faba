#include "config/section.h"

#include <toml++/toml.h>

#include <algorithm>

#include "config/config.h"
#include "config/units.h"

namespace dovetail::config {
namespace {

Place place_in(const toml::source_region& where) { return {where.begin.line, where.begin.column}; }

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

void Problems::add(Place where, std::string_view key, std::string_view what) {
  if (first_.empty()) first_ = place(where, key) + ": " + std::string(what);
}

std::string Problems::place(Place where, std::string_view key) const {
  std::string text = file_;
  if (where.line != 0) {
    text += ":" + std::to_string(where.line) + ":" + std::to_string(where.column);
  }
  if (!key.empty()) text += ": " + std::string(key);
  return text;
}

struct Section::Table {
  const toml::table& toml;

  const toml::node* find(std::string_view key) const { return toml.get(key); }
};

Section::Section(std::shared_ptr<const Table> table, std::string name, Problems& problems)
    : table_(std::move(table)), name_(std::move(name)), problems_(problems) {}

void Section::read_document(std::string_view text, const std::string& file, Problems& problems,
                            const std::function<void(Section& root)>& read) {
  try {
    const toml::table table = toml::parse(text, file);
    Section root(std::make_shared<Table>(Table{table}), "", problems);
    read(root);
  } catch (const toml::parse_error& error) {
    problems.add(place_in(error.source()), "",
                 std::string(error.description()) + "; check the TOML syntax");
  }
}

bool Section::has(std::string_view key) {
  know(key);
  return table_->find(key) != nullptr;
}

void Section::require(std::string_view key) {
  if (!has(key)) wrong_here("needs " + in_quotes(key));
}

void Section::text(std::string_view key, std::string& out) {
  if (!has(key)) return;
  const auto value = table_->find(key)->value_exact<std::string>();
  if (!value) return wrong(key, "must be a string");
  if (value->empty()) return wrong(key, "must not be empty");
  out = *value;
}

void Section::text_or_none(std::string_view key,
                           std::map<std::string, std::string, std::less<>>& out) {
  if (!has(key)) return;
  const auto value = table_->find(key)->value_exact<std::string>();
  if (!value) return wrong(key, "must be a string");
  out.emplace(key, *value);
}

void Section::plain(std::string_view key, std::string& out) {
  if (!has(key)) return;
  const toml::node& node = *table_->find(key);
  if (const auto value = node.value_exact<std::string>()) {
    out = *value;
  } else if (const auto number = node.value_exact<std::int64_t>()) {
    out = std::to_string(*number);
  } else if (const auto truth = node.value_exact<bool>()) {
    out = *truth ? "true" : "false";
  } else {
    wrong(key, "must be a string, a whole number, true or false");
  }
}

void Section::flag(std::string_view key, std::optional<bool>& out) {
  if (!has(key)) return;
  out = table_->find(key)->value_exact<bool>();
  if (!out) wrong(key, "must be true or false");
}

void Section::texts(std::string_view key, std::vector<std::string>& out, bool one_is_enough) {
  if (!has(key)) return;
  const toml::node& node = *table_->find(key);
  const std::string_view form =
      one_is_enough ? "must be a string, or a list of strings" : "must be a list of strings";
  const auto add = [&](const toml::node& item) {
    const auto value = item.value_exact<std::string>();
    if (!value || value->empty()) {
      problems_.add(place_in(item.source()), full(key), form);
    } else {
      out.push_back(*value);
    }
  };
  if (const toml::array* array = node.as_array()) {
    for (const toml::node& item : *array) add(item);
  } else if (one_is_enough) {
    add(node);
  } else {
    wrong(key, form);
  }
}

void Section::numbers(std::string_view key, std::vector<int>& out, int least, int most) {
  if (!has(key)) return;
  const std::string form = "must be a list of whole numbers from " + std::to_string(least) +
                           " to " + std::to_string(most);
  const toml::array* array = table_->find(key)->as_array();
  if (array == nullptr) return wrong(key, form);
  out.clear();
  for (const toml::node& item : *array) {
    const auto value = item.value_exact<std::int64_t>();
    if (!value || *value < least || *value > most) {
      problems_.add(place_in(item.source()), full(key), form);
    } else {
      out.push_back(static_cast<int>(*value));
    }
  }
}

void Section::duration(std::string_view key, Duration& out, Duration least) {
  if (!has(key)) return;
  const auto written = table_->find(key)->value_exact<std::string>();
  const auto value = written ? parse_duration(*written) : std::nullopt;
  if (!value) return wrong(key, "must be " + std::string(kDurationForm));
  if (*value < least) return wrong(key, "must be at least " + human_duration(least));
  out = *value;
}

void Section::size(std::string_view key, std::size_t& out, std::size_t least) {
  if (!has(key)) return;
  const auto written = table_->find(key)->value_exact<std::string>();
  const auto value = written ? parse_size(*written) : std::nullopt;
  if (!value) return wrong(key, "must be " + std::string(kSizeForm));
  if (*value < least) return wrong(key, "must be at least " + std::to_string(least) + "B");
  out = *value;
}

std::optional<std::int64_t> Section::whole_number(std::string_view key, std::int64_t least,
                                                  std::int64_t most) {
  if (!has(key)) return std::nullopt;
  const auto value = table_->find(key)->value_exact<std::int64_t>();
  if (value && *value >= least && *value <= most) return value;
  wrong(key,
        "must be a whole number from " + std::to_string(least) + " to " + std::to_string(most));
  return std::nullopt;
}

std::optional<std::size_t> Section::one_of(std::string_view key,
                                           const std::vector<std::string_view>& names) {
  if (!has(key)) return std::nullopt;
  const auto value = table_->find(key)->value_exact<std::string>();
  std::string allowed;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (value && *value == names[i]) return i;
    allowed += (allowed.empty() ? "" : ", ") + in_quotes(names[i]);
  }
  wrong(key, "must be one of " + allowed);
  return std::nullopt;
}

void Section::wrong(std::string_view key, std::string_view what) {
  problems_.add(place_of(key), full(key), what);
}

void Section::wrong_here(std::string_view what) {
  problems_.add(place_in(table_->toml.source()), name_, what);
}

std::string Section::place(std::string_view key) const {
  return problems_.place(place_of(key), full(key));
}

void Section::table(std::string_view key, const Read& read) {
  if (!has(key)) return;
  const toml::table* one = table_->find(key)->as_table();
  if (one == nullptr) return wrong(key, "must be a table [" + full(key) + "]");
  Section section(std::make_shared<Table>(Table{*one}), full(key), problems_);
  read(section);
}

void Section::named_tables(std::string_view key, std::string_view form, const ReadNamed& read) {
  if (!has(key)) return;
  const toml::table* all = table_->find(key)->as_table();
  if (all == nullptr) return wrong(key, "must be tables named " + std::string(form));
  for (const auto& [name, node] : *all) {
    const std::string path = full(key) + "." + std::string(name.str());
    if (const toml::table* one = node.as_table()) {
      Section section(std::make_shared<Table>(Table{*one}), path, problems_);
      read(name.str(), section);
    } else {
      problems_.add(place_in(node.source()), path, "must be a table " + std::string(form));
    }
  }
}

void Section::repeated_table(std::string_view key, const Read& read) {
  if (!has(key)) return;
  const toml::array* all = table_->find(key)->as_array();
  if (all == nullptr || !all->is_array_of_tables()) {
    return wrong(key, "must be tables that begin with [[" + full(key) + "]]");
  }
  for (const toml::node& node : *all) {
    Section section(std::make_shared<Table>(Table{*node.as_table()}), full(key), problems_);
    read(section);
  }
}

void Section::each_key(const std::function<void(std::string_view key)>& read) {
  for (const auto& [key, node] : table_->toml) read(key.str());
}

void Section::close() {
  for (const auto& [key, node] : table_->toml) {
    const std::string_view name = key.str();
    if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
    const std::string_view near = nearest_name(name, known_);
    std::string what = "unknown key; ";
    if (!near.empty()) what += "did you mean " + in_quotes(near) + "? ";
    problems_.add(place_in(key.source()), full(name), what + "Allowed here: " + join(known_));
  }
}

void Section::know(std::string_view key) {
  if (std::find(known_.begin(), known_.end(), key) == known_.end()) known_.push_back(key);
}

std::string Section::full(std::string_view key) const {
  return name_.empty() ? std::string(key) : name_ + "." + std::string(key);
}

Place Section::place_of(std::string_view key) const {
  const toml::node* node = table_->find(key);
  return place_in(node != nullptr ? node->source() : table_->toml.source());
}

}  // namespace dovetail::config

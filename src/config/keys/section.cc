#include "config/keys/section.h"

#include <algorithm>

#include "config/config.h"

namespace dovetail::config {

void Problems::add(Place where, std::string_view key, std::string_view what) {
  if (first_.empty()) first_ = place(where, key) + ": " + std::string(what);
}

std::string Problems::place(Place where, std::string_view key) const {
  std::string text = file_;
  if (where.line != 0)
    text += ":" + std::to_string(where.line) + ":" + std::to_string(where.column);
  if (!key.empty()) text += ": " + std::string(key);
  return text;
}

void Section::read(const Settings& settings) {
  for (const Setting& setting : settings.all_) {
    const std::string& key = setting.reference_.key;
    const Member* const member = table_.find(key);
    if (member == nullptr) {
      if (setting.reference_.is_required) wrong_here("needs " + in_quotes(key));
      continue;
    }
    if (!setting.take_) continue;
    std::string what = setting.take_(member->value);
    if (what.empty() && setting.wrong_) what = setting.wrong_();
    if (!what.empty()) wrong(key, what);
  }
  report_undeclared(settings);
  for (const Setting& setting : settings.all_) {
    if (!setting.why_not_ || !has(setting.reference_.key)) continue;
    if (const std::string why_not = setting.why_not_(); !why_not.empty())
      wrong(setting.reference_.key,
            "is for " + setting.reference_.only_for + ", and " + why_not + "; remove it");
  }
}

void Section::report_undeclared(const Settings& settings) {
  std::vector<std::string_view> known;
  for (const Setting& setting : settings.all_) known.push_back(setting.reference_.key);
  for (const Member& member : *table_.as<Value::Table>()) {
    if (settings.find(member.key) != nullptr) continue;
    const auto gone = std::find_if(settings.gone_.begin(), settings.gone_.end(),
                                   [&](const auto& one) { return one.key == member.key; });
    if (gone != settings.gone_.end()) {
      wrong(member.key, gone->what);
      continue;
    }
    const std::string_view near = nearest_name(member.key, known);
    std::string what = "unknown key; ";
    if (!near.empty()) what += "did you mean " + in_quotes(near) + "? ";
    problems_.add(member.place, full(member.key), what + "Allowed here: " + join(known));
  }
}

std::string Section::peek(std::string_view key) const {
  const Member* const member = table_.find(key);
  const auto* text = member == nullptr ? nullptr : member->value.as<std::string>();
  return text == nullptr ? "" : *text;
}

void Section::wrong(std::string_view key, std::string_view what) {
  problems_.add(place_of(key), full(key), what);
}

void Section::wrong_here(std::string_view what) { problems_.add(table_.place, name_, what); }

std::string Section::place(std::string_view key) const {
  return problems_.place(place_of(key), full(key));
}

void Section::table(std::string_view key, const Read& read) {
  const Member* const member = table_.find(key);
  if (member == nullptr) return;
  if (member->value.as<Value::Table>() == nullptr)
    return wrong(key, "must be a table [" + full(key) + "]");
  Section section(member->value, full(key), problems_);
  read(section);
}

void Section::named_tables(std::string_view key, const ReadNamed& read) {
  const Member* const all = table_.find(key);
  if (all == nullptr) return;
  const std::string form = "[" + full(key) + ".NAME]";
  if (all->value.as<Value::Table>() == nullptr) return wrong(key, "must be tables named " + form);
  for (const Member& member : *all->value.as<Value::Table>()) {
    Section section(member.value, full(key) + "." + member.key, problems_);
    if (member.value.as<Value::Table>() == nullptr)
      section.wrong_here("must be a table " + form);
    else
      read(member.key, section);
  }
}

void Section::repeated_table(std::string_view key, const Read& read) {
  const Member* const member = table_.find(key);
  if (member == nullptr) return;
  const auto* all = member->value.as<Value::List>();
  const auto is_table = [](const Value& one) { return one.as<Value::Table>() != nullptr; };
  if (all == nullptr || all->empty() || !std::all_of(all->begin(), all->end(), is_table))
    return wrong(key, "must be tables that begin with [[" + full(key) + "]]");
  for (const Value& one : *all) {
    Section section(one, full(key), problems_);
    read(section);
  }
}

void Section::each(
    const std::function<void(const std::string& key, const Value& value)>& read) const {
  for (const Member& member : *table_.as<Value::Table>()) read(member.key, member.value);
}

std::string Section::full(std::string_view key) const {
  return name_.empty() ? std::string(key) : name_ + "." + std::string(key);
}

Place Section::place_of(std::string_view key) const {
  const Member* const member = table_.find(key);
  return member != nullptr ? member->value.place : table_.place;
}

}  // namespace dovetail::config

#include "console/api/parked_groups.h"

#include <cctype>
#include <map>
#include <utility>

#include "assembly/database.h"

namespace dovetail::console {
namespace {

using assembly::database_of;
using config::StoreConfig;

constexpr std::size_t kPage = 10'000;  // each costs a connection

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' ||
         (static_cast<unsigned char>(c) & 0x80U) != 0;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// One word, or one quoted value; a dash holds a word together only between digits and letters, as
// in an id.
std::size_t length_of_word(std::string_view text) {
  std::size_t end = 0;
  while (end < text.size() &&
         (is_word(text[end]) ||
          (text[end] == '-' && end > 0 && end + 1 < text.size() && is_word(text[end + 1]))))
    ++end;
  return end;
}

using Key = std::pair<std::string, std::pair<std::string, std::string>>;

Key key_of(const ParkedRow& row) { return {row.relay, {row.aggregate_type, row.aggregate_id}}; }

Status read_store(const StoreConfig& store, const std::string& relay, Heads& heads) {
  ParkedFilter filter;
  filter.relay = relay;
  filter.limit = kPage;
  std::map<Key, std::size_t> behind;
  const std::size_t first = heads.all.size();
  std::size_t read = 0;
  while (true) {
    auto page = database_of(store)->list_parked(filter);
    if (!page) return fail(page.error());
    read += page->size();
    for (ParkedRow& row : *page) {
      filter.after = row.number;
      if (row.head && row.state == EventState::parked) {
        Head& head = heads.all.emplace_back();
        head.group = group_id(store.name, row);
        head.place = {&store, std::move(row)};
      } else if (!row.head && !row.aggregate_id.empty()) {
        ++behind[key_of(row)];
      }
    }
    if (page->size() < kPage) break;
    if (read >= kReadMax) {
      heads.is_complete = false;
      break;
    }
  }
  for (std::size_t i = first; i < heads.all.size(); ++i)
    if (const auto found = behind.find(key_of(heads.all[i].place.row)); found != behind.end())
      heads.all[i].behind = found->second;
  return {};
}

}  // namespace

std::string shape_of(std::string_view reason) {
  std::string shape;
  while (!reason.empty()) {
    const std::size_t length = length_of_word(reason);
    const std::string_view word = reason.substr(0, length == 0 ? 1 : length);
    bool has_digit = false;
    for (const char c : word) has_digit = has_digit || is_digit(c);
    shape += has_digit ? std::string("*") : std::string(word);
    reason.remove_prefix(word.size());
  }
  return shape;
}

std::string group_id(const std::string& store, const ParkedRow& row) {
  std::uint64_t hash = 14695981039346656037ULL;  // FNV-1a
  for (const char c : store + '\n' + row.relay + '\n' + shape_of(row.reason)) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 1099511628211ULL;
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string id;
  for (int shift = 60; shift >= 0; shift -= 4) id += kDigits[hash >> shift & 15];
  return id;
}

Expected<Heads> read_heads(const Desk& desk, std::string_view store, const std::string& relay) {
  const auto stores = databases_of(desk.config, store);
  if (!stores) return tl::unexpected(stores.error());
  Heads heads;
  for (const StoreConfig* one : *stores) {
    if (const Status read = read_store(*one, relay, heads); !read)
      heads.silent.push_back({one->name, read.error().text});
  }
  return heads;
}

}  // namespace dovetail::console

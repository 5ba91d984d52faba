#include "console/api/cursor.h"

#include <algorithm>
#include <charconv>

namespace dovetail::console {

app::Expected<Cursor> Cursor::parse(std::string_view text) {
  Cursor cursor;
  cursor.is_first_ = text.empty();
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find(','));
    text.remove_prefix(std::min(one.size() + 1, text.size()));
    const std::size_t colon = std::min(one.rfind(':'), one.size());
    const std::string_view number = one.substr(std::min(colon + 1, one.size()));
    std::int64_t place = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), place);
    if (colon == 0 || number.empty() || error != std::errc() || end != number.end() || place < 0)
      return app::refuse(app::Exit::usage,
                         "after must be the \"next\" of the page before this one");
    cursor.places_[std::string(one.substr(0, colon))] = place;
  }
  return cursor;
}

std::optional<std::int64_t> Cursor::of(const std::string& store) const {
  if (is_first_) return 0;
  const auto found = places_.find(store);
  if (found == places_.end()) return std::nullopt;
  return found->second;
}

std::string Cursor::text() const {
  std::string text;
  for (const auto& [store, place] : places_)
    text += (text.empty() ? "" : ",") + store + ":" + std::to_string(place);
  return text;
}

}  // namespace dovetail::console

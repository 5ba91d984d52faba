#include "core/life/receipt.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace dovetail {

namespace {

constexpr std::size_t kFields = 5;

template <class Integer>
bool read_number(std::string_view text, Integer& value) {
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  return read.ec == std::errc{} && read.ptr == text.data() + text.size();
}

bool can_be_listed(std::string_view topic) {
  return topic.size() <= Receipt::kTopicBytesMax &&
         std::none_of(topic.begin(), topic.end(),
                      [](char c) { return static_cast<unsigned char>(c) < ' '; });
}

bool read_range(std::string_view line, PlaceRange& range) {
  std::array<std::string_view, kFields> fields;
  for (std::size_t i = 0; i < kFields; ++i) {
    const std::size_t end = i + 1 < kFields ? line.find('\t') : line.size();
    if (end == std::string_view::npos) return false;
    fields[i] = line.substr(0, end);
    line.remove_prefix(std::min(line.size(), end + 1));
  }
  range.topic = std::string(fields[0]);
  return read_number(fields[1], range.partition) && read_number(fields[2], range.first) &&
         read_number(fields[3], range.last) && read_number(fields[4], range.events);
}

}  // namespace

void Receipt::clear() {
  first_ = std::numeric_limits<std::int64_t>::max();
  last_ = std::numeric_limits<std::int64_t>::min();
  events_ = 0;
  at_ = 0;
  places_.clear();
}

void Receipt::add_place(std::string_view topic, BrokerPlace place) {
  const auto is_of = [&](const PlaceRange& range) {
    return range.partition == place.partition && range.topic == topic;
  };
  if (at_ >= places_.size() || !is_of(places_[at_])) {
    const auto found = std::find_if(places_.begin(), places_.end(), is_of);
    at_ = static_cast<std::size_t>(found - places_.begin());
    if (found == places_.end()) {
      if (places_.size() == kRangesMax || !can_be_listed(topic)) return;
      places_.push_back({std::string(topic), place.partition, place.offset, place.offset, 0});
    }
  }
  PlaceRange& range = places_[at_];
  range.first = std::min(range.first, place.offset);
  range.last = std::max(range.last, place.offset);
  ++range.events;
}

std::string to_text(const std::vector<PlaceRange>& places) {
  std::string text;
  for (const PlaceRange& range : places)
    text += range.topic + "\t" + std::to_string(range.partition) + "\t" +
            std::to_string(range.first) + "\t" + std::to_string(range.last) + "\t" +
            std::to_string(range.events) + "\n";
  return text;
}

std::vector<PlaceRange> parse_places(std::string_view text) {
  std::vector<PlaceRange> places;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    PlaceRange range;
    if (read_range(text.substr(0, end), range)) places.push_back(std::move(range));
    text.remove_prefix(std::min(text.size(), end + 1));
  }
  return places;
}

}  // namespace dovetail

// What a relay notes when it writes its progress. One note covers many events, so that no event
// costs a row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "core/relay/sink.h"
#include "dovetail/event.h"

namespace dovetail {

// Places of one partition.
struct PlaceRange {
  std::string topic{};
  std::int32_t partition = -1;
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::uint64_t events = 0;

  friend bool operator==(const PlaceRange&, const PlaceRange&) = default;
};

// Collects what was delivered between two writes of progress. One thread.
class Receipt {
 public:
  // More partitions than this are not listed, nor topics with a longer name, or with a control
  // character: their events are counted, and that they are missing can be seen.
  static constexpr std::size_t kRangesMax = 64;
  static constexpr std::size_t kTopicBytesMax = 256;

  void add(const Event& event, BrokerPlace place) {
    if (event.position < first_) first_ = event.position;
    if (event.position > last_) last_ = event.position;
    ++events_;
    if (place.is_known()) add_place(event.topic, place);
  }
  void clear();

  bool empty() const { return events_ == 0; }
  std::uint64_t events() const { return events_; }
  // The lowest and the highest position. Other lanes' events may lie between them.
  std::int64_t first() const { return first_; }
  std::int64_t last() const { return last_; }
  const std::vector<PlaceRange>& places() const { return places_; }

 private:
  void add_place(std::string_view topic, BrokerPlace place);

  std::int64_t first_ = std::numeric_limits<std::int64_t>::max();
  std::int64_t last_ = std::numeric_limits<std::int64_t>::min();
  std::uint64_t events_ = 0;
  std::size_t at_ = 0;  // the range of the last event
  std::vector<PlaceRange> places_{};
};

// As stores keep it: one line for each range, with its fields between tabs.
std::string to_text(const std::vector<PlaceRange>& places);
// Lines that it does not understand are left out: a later version may have written them.
std::vector<PlaceRange> parse_places(std::string_view text);

}  // namespace dovetail

#include "core/inbox/inbox_rows.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace dovetail {
namespace {

EventId id_of(std::uint8_t number) {
  EventId id;
  id.bytes[15] = number;
  return id;
}
HandlerRow row_of(std::uint8_t number, std::uint32_t event, std::int64_t digest = 17,
                  std::int32_t handler = 1) {
  return HandlerRow{id_of(number), handler, event, 0, digest};
}
std::vector<Arrival> arrivals_of(const std::vector<HandlerRow>& rows) {
  std::vector<Arrival> arrivals;
  for (const HandlerRow& row : rows) arrivals.push_back(row.arrival);
  return arrivals;
}
using Arrivals = std::vector<Arrival>;

TEST(InboxRows, AreMatchedByTheirIdsInWhateverOrderTheServerTellsThem) {
  std::vector<HandlerRow> rows{row_of(1, 0), row_of(2, 1), row_of(3, 2), row_of(3, 3),
                               row_of(4, 4)};
  std::vector<InboxKey> inserted{{id_of(1), 1}, {id_of(3), 1}, {id_of(4), 1}};
  do {
    std::vector<HandlerRow> marked = rows;
    mark_inserted(marked, inserted);
    EXPECT_EQ(arrivals_of(marked), (Arrivals{Arrival::first, Arrival::duplicate, Arrival::first,
                                             Arrival::duplicate, Arrival::first}));
  } while (std::next_permutation(inserted.begin(), inserted.end()));
}

TEST(InboxRows, OfAnotherPayloadAreAConflictAndThoseOfAnUnknownOneAreNot) {
  std::vector<HandlerRow> rows{row_of(1, 0), row_of(2, 1), row_of(3, 2), row_of(4, 3)};
  rows[3].arrival = Arrival::forgotten;
  mark_inserted(rows, {});
  ASSERT_TRUE(needs_comparing(rows));
  compare_known(rows, {{{id_of(3), 1}, 18},
                       {{id_of(1), 1}, 17},
                       {{id_of(2), 1}, std::nullopt},
                       {{id_of(4), 2}, 17}});
  EXPECT_EQ(arrivals_of(rows), (Arrivals{Arrival::duplicate, Arrival::duplicate, Arrival::conflict,
                                         Arrival::forgotten}));
}

TEST(InboxRows, TheWorstOfItsHandlersDecidesAboutAnEvent) {
  std::vector<HandlerRow> rows{row_of(1, 0), row_of(1, 0, 17, 2), row_of(2, 1)};
  rows[0].arrival = Arrival::first;
  rows[1].arrival = Arrival::conflict;
  std::vector<Arrival> arrivals(3);
  tell_arrivals(rows, arrivals);
  EXPECT_EQ(arrivals, (Arrivals{Arrival::conflict, Arrival::duplicate, Arrival::first}))
      << "the last is wanted by nobody";
}

}  // namespace
}  // namespace dovetail

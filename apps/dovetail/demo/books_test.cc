#include "demo/books.h"

#include <gtest/gtest.h>

namespace dovetail::shop {
namespace {

const std::vector<Entry> kOrders{
    {1, "mug", 1, 2}, {2, "rug", 1, 1}, {3, "mug", 2, 5}, {4, "mug", 3, 1}};

TEST(Books, EqualBooksAreFine) {
  EXPECT_TRUE(compare_books(kOrders, kOrders).ok());
  EXPECT_TRUE(compare_books({}, {}).ok());
}

TEST(Books, ProductsMayOvertakeEachOther) {
  const std::vector<Entry> movements{kOrders[0], kOrders[2], kOrders[3], kOrders[1]};
  EXPECT_TRUE(compare_books(kOrders, movements).ok());
}

TEST(Books, ALostOrderIsFound) {
  const std::vector<Entry> movements{kOrders[0], kOrders[1], kOrders[3]};
  const Verdict verdict = compare_books(kOrders, movements);
  EXPECT_EQ(verdict.lost, 1u);
  EXPECT_EQ(verdict.phantom + verdict.doubled + verdict.reordered, 0u);
  ASSERT_EQ(verdict.examples.size(), 1u);
  EXPECT_NE(verdict.examples[0].find("order 3"), std::string::npos) << verdict.examples[0];
}

TEST(Books, APhantomMovementIsFound) {
  std::vector<Entry> movements = kOrders;
  movements.push_back({99, "mug", 4, 1});
  const Verdict verdict = compare_books(kOrders, movements);
  EXPECT_EQ(verdict.phantom, 1u);
  EXPECT_EQ(verdict.lost + verdict.doubled + verdict.reordered, 0u);
}

TEST(Books, AMovementOfAnotherQuantityIsAPhantomAndTheOrderIsLost) {
  std::vector<Entry> movements = kOrders;
  movements[1].quantity = 7;
  const Verdict verdict = compare_books(kOrders, movements);
  EXPECT_EQ(verdict.phantom, 1u);
  EXPECT_EQ(verdict.lost, 1u);
}

TEST(Books, ADoubledEffectIsFound) {
  std::vector<Entry> movements = kOrders;
  movements.push_back(kOrders[0]);
  const Verdict verdict = compare_books(kOrders, movements);
  EXPECT_EQ(verdict.doubled, 1u);
  EXPECT_EQ(verdict.lost + verdict.phantom + verdict.reordered, 0u);
}

TEST(Books, AReorderedEffectIsFound) {
  const std::vector<Entry> movements{kOrders[0], kOrders[3], kOrders[2], kOrders[1]};
  const Verdict verdict = compare_books(kOrders, movements);
  EXPECT_EQ(verdict.reordered, 1u);
  EXPECT_EQ(verdict.lost + verdict.phantom + verdict.doubled, 0u);
}

}  // namespace
}  // namespace dovetail::shop

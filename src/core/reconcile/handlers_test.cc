#include "core/reconcile/handlers.h"

#include <gtest/gtest.h>

namespace dovetail::reconcile {
namespace {

using Names = std::vector<std::string>;

Names chosen(std::vector<KnownHandler> known, const Names& wanted = {}) {
  const auto found = choose_handlers(std::move(known), "stock", wanted);
  return found ? names_of(*found) : Names{"refused"};
}

TEST(ReconciledHandlers, AConsumerWithNamedHandlersHasNoRowsOfItsOwn) {
  EXPECT_EQ(chosen({{1, "stock"}}), Names{"stock"});
  EXPECT_EQ(chosen({{1, "stock"}, {3, "stock.mail"}, {2, "stock.ledger"}}),
            (Names{"stock.ledger", "stock.mail"}));
}

TEST(ReconciledHandlers, WhatTheInboxDoesNotKnowIsRefused) {
  EXPECT_EQ(chosen({}), Names{"refused"});
  EXPECT_EQ(chosen({{1, "stock"}, {2, "stock.mail"}}, {"stock.mail"}), Names{"stock.mail"});
  EXPECT_EQ(chosen({{1, "stock"}, {2, "stock.mail"}}, {"stock.mail", "stock.gone"}),
            Names{"refused"});
}

}  // namespace
}  // namespace dovetail::reconcile

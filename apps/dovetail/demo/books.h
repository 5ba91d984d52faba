// Compares the books of two services: every order of one must have moved the stock of the other
// once, in order along each product. It does not know how the events travelled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace dovetail::shop {

struct Entry {
  std::int64_t order = 0;
  std::string product;
  std::int64_t version = 0;  // numbers the orders of a product from 1
  std::int64_t quantity = 0;
};

struct Verdict {
  std::size_t lost = 0;                 // orders without a movement
  std::size_t phantom = 0;              // movements without an order, or with a different one
  std::size_t doubled = 0;              // movements beyond the first of an order
  std::size_t reordered = 0;            // movements of a product after a later one of it
  std::vector<std::string> examples{};  // the first few of each kind, for people

  bool ok() const { return lost + phantom + doubled + reordered == 0; }
};

// `orders` in any order; `movements` in the order of time.
Verdict compare_books(std::span<const Entry> orders, std::span<const Entry> movements);

}  // namespace dovetail::shop

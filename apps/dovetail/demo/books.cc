#include "demo/books.h"

#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace dovetail::shop {
namespace {

constexpr std::size_t kExamplesOfAKind = 3;

void count(std::size_t& counter, Verdict& verdict, std::string_view what, const Entry& entry) {
  if (++counter > kExamplesOfAKind) return;
  verdict.examples.push_back(std::string(what) + ": order " + std::to_string(entry.order) + ", " +
                             entry.product + " number " + std::to_string(entry.version));
}

}  // namespace

Verdict compare_books(std::span<const Entry> orders, std::span<const Entry> movements) {
  Verdict verdict;
  std::unordered_map<std::int64_t, const Entry*> expected;
  for (const Entry& order : orders) expected.emplace(order.order, &order);

  std::unordered_set<std::int64_t> moved;
  std::unordered_map<std::string_view, std::int64_t> last_version;
  for (const Entry& movement : movements) {
    const auto order = expected.find(movement.order);
    if (order == expected.end() || order->second->product != movement.product ||
        order->second->version != movement.version ||
        order->second->quantity != movement.quantity) {
      count(verdict.phantom, verdict, "stock moved without an order", movement);
      continue;
    }
    if (!moved.insert(movement.order).second) {
      count(verdict.doubled, verdict, "stock moved twice", movement);
      continue;  // A repeat always comes after later movements.
    }
    std::int64_t& last = last_version[movement.product];
    if (movement.version < last) {
      count(verdict.reordered, verdict, "stock moved out of order", movement);
    } else {
      last = movement.version;
    }
  }
  for (const Entry& order : orders) {
    if (!moved.contains(order.order)) count(verdict.lost, verdict, "stock never moved", order);
  }
  return verdict;
}

}  // namespace dovetail::shop

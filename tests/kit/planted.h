// Faults that a test plants in two sides, and what a comparison must find.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "core/reconcile/comparison.h"
#include "kit/results.h"

namespace dovetail::reconcile {

// The lines of all findings, sorted.
inline std::vector<std::string> lines_of(const Outcome& outcome) {
  std::vector<std::string> lines;
  for (const Finding& one : outcome.findings)
    lines.push_back(findings_line(one.kind, one.receiver, one.id));
  std::sort(lines.begin(), lines.end());
  return lines;
}

inline std::vector<std::string> sorted(std::vector<std::string> lines) {
  std::sort(lines.begin(), lines.end());
  return lines;
}

// Compares two scans; every receiver wants every event.
inline Outcome compare_scans(OutboxScan& outbox, ReceiverScan& receiver, Rules rules) {
  for (const std::string& name : receiver.names()) rules.receivers.push_back({.name = name});
  Sides sides{.published = outbox.events(), .received = receiver.rows()};
  sides.held.push_back(&outbox.held());
  if (receiver.held() != nullptr) sides.held.push_back(receiver.held());
  sides.find_now = [&](std::span<const EventId> ids) { return outbox.find_now(ids); };
  Result<Outcome> outcome = compare(rules, sides);
  EXPECT_TRUE(outcome) << text_of(outcome);
  return outcome ? std::move(*outcome) : Outcome{};
}

}  // namespace dovetail::reconcile

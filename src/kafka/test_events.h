// A small stand-in for the relay.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "core/event/batch.h"
#include "core/relay/sink.h"
#include "host/host.h"
#include "kit/events.h"

namespace dovetail::kafka {

// The outcomes of one batch; after an error `again` for all, with the error's text.
inline std::vector<Outcome> deliver_once(Sink& sink, const std::vector<const Event*>& events) {
  std::vector<Outcome> outcomes(events.size());
  const auto lost = [&](const Error& error) {
    return std::vector<Outcome>(events.size(), Outcome{Fate::again, 0, error.text});
  };
  if (const Status submitted = sink.submit(events); !submitted) return lost(submitted.error());
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (std::chrono::steady_clock::now() < end) {
    const Result<bool> known = sink.collect(outcomes, std::chrono::milliseconds(100));
    if (!known) return lost(known.error());
    if (*known) return outcomes;
  }
  ADD_FAILURE() << "no outcome within the limit";
  return outcomes;
}

// Like the relay: sends events with `again` once more, on a new connection.
inline std::vector<Outcome> deliver(Sink& sink, const std::vector<const Event*>& events) {
  std::vector<Outcome> outcomes(events.size());
  std::vector<std::size_t> open(events.size());
  for (std::size_t i = 0; i < open.size(); ++i) open[i] = i;
  for (int tries = 0; tries < 100 && !open.empty(); ++tries) {
    std::vector<const Event*> some;
    some.reserve(open.size());
    for (const std::size_t i : open) some.push_back(events[i]);
    const std::vector<Outcome> fates = deliver_once(sink, some);
    std::vector<std::size_t> again;
    for (std::size_t i = 0; i < open.size(); ++i) {
      outcomes[open[i]] = fates[i];
      if (fates[i].fate == Fate::again) again.push_back(open[i]);
    }
    open = again;
    if (!open.empty()) {
      EXPECT_TRUE(sink.open());
    }
  }
  return outcomes;
}

}  // namespace dovetail::kafka

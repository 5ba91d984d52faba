#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <set>

#include "config/units.h"
#include "overview/problems.h"

namespace dovetail::app {
namespace {

using config::counted;

using enum ProblemKind;

std::string word(std::size_t count) {
  constexpr std::array<std::string_view, 11> kWords = {
      "no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"};
  return count < kWords.size() ? std::string(kWords[count]) : config::human_count(count);
}

std::string capital(std::string text) {
  if (!text.empty()) text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

// Whether its relays deliver nothing because of it.
bool stops_deliveries(const Problem& problem) {
  return problem.severity == Severity::error || problem.kind == paused;
}

// "The broker bus is away, 2 events of the relay x are parked, and two more problems."
std::string title_of(const std::vector<Problem>& problems) {
  std::vector<std::string> titles;
  for (const Problem& problem : problems) {
    if (std::find(titles.begin(), titles.end(), problem.title) == titles.end())
      titles.push_back(problem.title);
  }
  const auto inner = [](std::string title) {
    if (title.starts_with("The ")) title[0] = 't';
    if (title.starts_with("No process")) title[0] = 'n';
    return title;
  };
  std::string text = titles[0];
  if (titles.size() == 2) text += ", and " + inner(titles[1]);
  if (titles.size() > 2)
    text += ", " + inner(titles[1]) + ", and " + word(titles.size() - 2) +
            (titles.size() == 3 ? " more problem" : " more problems");
  return text + ".";
}

std::string rate_of(double events_per_second) {
  char text[32];
  std::snprintf(text, sizeof text, events_per_second < 10 ? "%.1f" : "%.0f", events_per_second);
  return text;
}

// "Nothing is lost: 41,905 events wait in their databases. Four of six relays deliver."
std::string what_is_safe(const Totals& totals, const std::vector<Problem>& problems) {
  const bool is_damaged = std::any_of(problems.begin(), problems.end(), [](const Problem& problem) {
    return problem.kind == database_unusable || problem.kind == wrong_mapping;
  });
  const std::uint64_t held = totals.pending + totals.waiting + totals.parked;
  std::string text;
  if (!is_damaged) text = "Nothing is lost";
  if (!totals.is_pending_known)
    text += (text.empty() ? "H" : ": h") + std::string("ow many events wait is not known now. ");
  else if (held != 0)
    text += (text.empty() ? "" : ": ") + counted(held, "event") +
            (held == 1 ? " waits in its database. " : " wait in their databases. ");
  else if (!text.empty())
    text += ", and no event waits. ";
  if (totals.relays == 0) return text;
  const std::size_t well = totals.delivering;
  if (totals.relays == 1)
    return text + (well == 1 ? "The relay delivers." : "The relay delivers nothing.");
  return text + (well == 0 ? "None" : capital(word(well))) + " of " + word(totals.relays) +
         (totals.relays == 1 ? " relay" : " relays") + (well < 2 ? " delivers." : " deliver.");
}

}  // namespace

Totals totals_of(const Overview& overview, const std::vector<Problem>& problems) {
  Totals totals;
  std::set<std::string> running;
  for (const StoreView& view : overview.stores) {
    if (!view.status) {
      if (view.failure) totals.is_pending_known = false;
      continue;
    }
    for (const assembly::RelayStatus& relay : view.status->relays) {
      totals.parked += relay.parked;
      totals.waiting += relay.waiting;
      totals.delivered += relay.delivered_total;
      totals.events_per_second += relay.events_per_second;
      const auto* const config = configured(*overview.config, *view.store, relay.name);
      if (config != nullptr && state_of(relay.lease_left, relay.said) != "stopped")
        running.insert(relay.name);
      if (!knows_pending(relay)) {
        if (relay.source != SourceKind::broker) totals.is_pending_known = false;
        continue;
      }
      totals.pending += relay.pending;
      if (!relay.is_age_known || relay.oldest_age <= totals.oldest_age) continue;
      totals.oldest_age = relay.oldest_age;
      totals.oldest_in = relay.name;
    }
    for (const QueueStatus& queue : view.status->queues) totals.parked += queue.parked;
  }
  // What no relay has read yet is not counted.
  if (std::any_of(problems.begin(), problems.end(), [](const Problem& problem) {
        return problem.kind == no_owner && problem.severity == Severity::warning;
      }))
    totals.is_pending_known = false;
  std::set<std::string> silent;
  for (const config::RelayConfig* relay : overview.config->readers()) {
    ++totals.relays;
    for (const Problem& problem : problems) {
      const bool is_about_it = problem.where.relay.empty() ? problem.where.store == relay->from ||
                                                                 problem.where.store == relay->to
                                                           : problem.where.relay == relay->name;
      if (is_about_it && stops_deliveries(problem)) silent.insert(relay->name);
    }
  }
  totals.silent = silent.size();
  totals.running = running.size();
  for (const std::string& name : running) totals.delivering += silent.contains(name) ? 0U : 1U;
  return totals;
}

Verdict verdict_of(const Overview& overview, const std::vector<Problem>& problems) {
  const Totals totals = totals_of(overview, problems);
  if (!problems.empty())
    return {std::string(to_string(problems.front().severity)), title_of(problems),
            what_is_safe(totals, problems)};
  if (totals.pending != 0)
    return {"ok", "Everything is on its way.",
            counted(totals.pending, "event") + (totals.pending == 1 ? " is" : " are") +
                " pending, the oldest for " + config::human_duration(totals.oldest_age) +
                "; the rate is " + rate_of(totals.events_per_second) + " events each second."};
  if (totals.delivered == 0)
    return {"ok", "Nothing was published or read yet.",
            "The first event is delivered as soon as 'dovetail run' runs."};
  if (totals.running < totals.relays)
    return {"note", "Everything is delivered, and not every relay runs.",
            capital(word(totals.running)) + " of " + word(totals.relays) +
                (totals.relays == 1 ? " relay" : " relays") +
                (totals.running == 1 ? " runs." : " run.")};
  return {"ok", "Everything is delivered.",
          counted(totals.delivered, "event") + " in all. " + capital(word(totals.relays)) +
              (totals.relays == 1 ? " relay runs" : " relays run") + ", and nothing is parked."};
}

}  // namespace dovetail::app

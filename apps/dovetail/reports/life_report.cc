#include "reports/life_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "config/units.h"

namespace dovetail::app {

using life::Facts;
using life::Life;
using life::Step;

namespace {

const EventRow* row_of(const Facts& facts) {
  return facts.places.empty() ? nullptr : &facts.places.front().row;
}

std::optional<Duration> after_commit(const Facts& facts, const Step& step) {
  const EventRow* const row = row_of(facts);
  if (row == nullptr || !facts.places.front().is_dated || !step.at) return std::nullopt;
  return *step.at - row->created_at;
}

Json json_of(const Facts& facts, const Step& step) {
  Json json{{"actor", step.actor}, {"what", step.what}, {"kind", step.kind}};
  json["at"] = step.at ? Json(config::iso_time(*step.at)) : Json(nullptr);
  const auto after = after_commit(facts, step);
  json["at_us"] = after ? Json(after->count()) : Json(nullptr);
  json["detail"] = step.detail;
  if (step.attempt != 0) json["attempt"] = step.attempt;
  return json;
}

// "+3.2 ms"; two clocks may disagree.
std::string after_text(const Facts& facts, const Step& step) {
  const auto after = after_commit(facts, step);
  if (!after) return "unknown";
  if (after->count() == 0) return "";
  return (after->count() < 0 ? "-" : "+") + config::human_duration(std::chrono::abs(*after));
}

std::string head_of(const Facts& facts, const Life& life, std::optional<std::size_t> width) {
  std::string text = wrapped(life.sentence, width) + "\nevent      " + facts.id.to_string() + "\n";
  const EventRow* const row = row_of(facts);
  if (row == nullptr) return text;
  text += "type       " + printable(row->type) + "\nkey        " +
          printable(row->aggregate_type + "/" + row->aggregate_id) + "\n";
  return text;
}

}  // namespace

Json json_of(const Facts& facts, const Life& life) {
  Json steps = Json::array();
  for (const Step& step : life.steps) steps.push_back(json_of(facts, step));
  Json explain = Json::array();
  for (const life::Line& line : life.explain)
    explain.push_back({{"title", line.title}, {"text", line.text}});
  Json unasked = Json::array();
  for (const life::Unasked& one : facts.unasked)
    unasked.push_back({{"store", one.store}, {"why", one.why}});
  Json document{{"id", facts.id.to_string()}, {"state", life.state}, {"sentence", life.sentence}};
  if (const EventRow* const row = row_of(facts); row != nullptr)
    document["event"] = {{"store", facts.places.front().store},
                         {"position", row->position},
                         {"type", row->type},
                         {"aggregate_type", row->aggregate_type},
                         {"key", row->aggregate_id},
                         {"payload_bytes", row->payload_bytes},
                         {"created_at", config::iso_time(row->created_at)}};
  document["steps"] = steps;
  document["explain"] = explain;
  document["not_asked"] = unasked;
  return document;
}

std::string steps_text(const Facts& facts, const Life& life, std::optional<std::size_t> width) {
  const std::vector<std::string> titles{"TIME", ">AFTER", "WHO", "WHAT", ">TRY", "DETAIL"};
  Table whole(titles);
  Table narrow(std::vector<std::string>(titles.begin(), titles.end() - 1));
  std::size_t longest = titles.back().size();
  for (const Step& step : life.steps) {
    std::vector<std::string> cells{step.at ? config::iso_time(*step.at) : "unknown",
                                   after_text(facts, step), printable(step.actor, 40), step.what,
                                   step.attempt == 0 ? "" : std::to_string(step.attempt)};
    narrow.add(cells);
    cells.push_back(printable(step.detail, kWhole));
    longest = std::max(longest, columns_of(cells.back()));
    whole.add(std::move(cells));
  }
  std::string text = head_of(facts, life, width) + "\n";
  const std::string lines = narrow.to_string();
  const std::size_t end_of_titles = lines.find('\n');
  if (!width || end_of_titles + 2 + longest <= *width) {
    text += whole.to_string();
  } else {
    // What is said of a step goes below it.
    text += lines.substr(0, end_of_titles + 1);
    std::size_t begin = end_of_titles + 1;
    for (const Step& step : life.steps) {
      const std::size_t end = lines.find('\n', begin) + 1;
      text += lines.substr(begin, end - begin);
      if (!step.detail.empty()) text += wrapped(printable(step.detail, kWhole), width, "    ");
      begin = end;
    }
  }
  for (const life::Unasked& one : facts.unasked)
    text += "\n" + wrapped("not asked: " + one.store + ": " + printable(one.why, kWhole), width);
  return text;
}

std::string explain_text(const Facts& facts, const Life& life, std::optional<std::size_t> width) {
  std::string text = head_of(facts, life, width);
  for (const life::Line& line : life.explain)
    text += "\n" + line.title + "\n" + wrapped(printable(line.text, kWhole), width, "  ");
  return text;
}

}  // namespace dovetail::app

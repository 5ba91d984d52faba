#include "reports/life_report.h"

#include <nlohmann/json.hpp>
#include <optional>

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

std::string head_of(const Facts& facts, const Life& life) {
  std::string text = life.sentence + "\n\nevent      " + facts.id.to_string() + "\n";
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

std::string steps_text(const Facts& facts, const Life& life) {
  Table table({"TIME", ">AFTER", "WHO", "WHAT", ">TRY", "DETAIL"});
  for (const Step& step : life.steps)
    table.add({step.at ? config::iso_time(*step.at) : "unknown", after_text(facts, step),
               printable(step.actor, 40), step.what,
               step.attempt == 0 ? "" : std::to_string(step.attempt),
               printable(step.detail, kWhole)});
  std::string text = head_of(facts, life) + "\n" + table.to_string();
  for (const life::Unasked& one : facts.unasked)
    text += "\nnot asked: " + one.store + ": " + printable(one.why, kWhole) + "\n";
  return text;
}

std::string explain_text(const Facts& facts, const Life& life) {
  std::string text = head_of(facts, life);
  for (const life::Line& line : life.explain)
    text += "\n" + line.title + "\n  " + printable(line.text, kWhole) + "\n";
  return text;
}

}  // namespace dovetail::app

#include "reports/reconcile_report.h"

#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "config/units.h"
#include "core/event/sha256.h"

namespace dovetail::app {

using assembly::ReconcileReport;
using assembly::ReconcileRequest;
using reconcile::Counts;
using reconcile::Finding;

namespace {

constexpr std::size_t kShownOnPage = 14;

struct Count {
  const char* name;
  std::uint64_t Counts::* value;
  const char* meaning;
};
constexpr std::array kFound = {
    Count{"missing", &Counts::missing, "published, confirmed, and not received"},
    Count{"extra", &Counts::extra, "received, and never published here"},
    Count{"altered", &Counts::altered, "received with another payload"},
    Count{"late", &Counts::late, "received later than allowed"}};
constexpr std::array kApart = {
    Count{"parked", &Counts::parked, "waits for an operator"},
    Count{"waiting", &Counts::waiting, "not delivered yet, or behind a parked event"},
    Count{"delayed", &Counts::delayed, "waits for its time"},
    Count{"discarded", &Counts::discarded, "given up by an operator"},
    Count{"skipped", &Counts::skipped, "not wanted by the receiver"},
    Count{"forgotten", &Counts::forgotten, "older than what the inbox remembers"}};
constexpr std::array kNoted = {
    Count{"outside", &Counts::outside, "published before or after the judged time"},
    Count{"unverified", &Counts::unverified, "received, and the payload is not known there"},
    Count{"repeated", &Counts::repeated, "more copies of a received event"},
    Count{"early", &Counts::early, "received before it was published, by two clocks that disagree"},
    Count{"foreign", &Counts::foreign, "from another publisher"},
    Count{"newer", &Counts::newer, "published while the sides were compared"}};

Json json_of(const Finding& finding) {
  Json json{{"kind", reconcile::to_string(finding.kind)},
            {"receiver", finding.receiver},
            {"id", finding.id.to_string()},
            {"type", finding.type},
            {"aggregate_type", finding.aggregate_type},
            {"key", finding.aggregate_id}};
  if (finding.published) json["published_at"] = config::iso_time(*finding.published);
  if (finding.received) json["received_at"] = config::iso_time(*finding.received);
  if (finding.partition >= 0) {
    json["partition"] = finding.partition;
    json["offset"] = finding.offset;
  }
  return json;
}

Json json_of(const std::string& store, const reconcile::Place& place) {
  return {{"store", store},
          {"place", place.store},
          {"login", place.login},
          {"read_at", config::iso_time(place.at)}};
}

// Safe inside an HTML page, too.
std::string digested_text(const Json& document) {
  const std::string text = document.dump(-1, ' ', true, Json::error_handler_t::replace);
  std::string safe;
  for (const char c : text) c == '<' ? safe += "\\u003c" : safe += c;
  return safe;
}

std::string html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string cell(std::string_view tag, std::string_view text, std::string_view kind = "") {
  std::string out = "<" + std::string(tag);
  if (!kind.empty()) out += " class=\"" + std::string(kind) + "\"";
  return out + ">" + html(text) + "</" + std::string(tag) + ">";
}

template <class List>
std::string count_rows(const List& list, const Counts& counts, bool is_finding) {
  std::string out;
  for (const Count& one : list) {
    const std::uint64_t value = counts.*one.value;
    const bool is_bad = is_finding && value != 0;
    out += std::string("<tr") + (is_bad ? " class=\"bad\"" : "") + ">" + cell("th", one.name) +
           cell("td", config::human_count(value), "n") + cell("td", one.meaning) + "</tr>";
  }
  return out;
}

std::string place_of(const Finding& finding) {
  if (finding.partition < 0) return {};
  return std::to_string(finding.partition) + "/" + std::to_string(finding.offset);
}

std::string key_of(const Finding& finding) {
  return finding.aggregate_type.empty() ? "" : finding.aggregate_type + "/" + finding.aggregate_id;
}

std::string time_of(const std::optional<WallTime>& time) {
  return time ? config::iso_time(*time) : "";
}

std::string receiver_of(const ReconcileReport& report) {
  return (report.is_topic ? "the topic " : "the inbox of ") + report.receiver + " in " +
         report.receiver_store;
}

std::string findings_table(const ReconcileReport& report) {
  const std::vector<Finding>& findings = report.outcome.findings;
  if (findings.empty()) return "<p>There are no findings.</p>";
  std::string out =
      "<table class=\"f\"><tr><th>found</th><th>receiver</th><th>event</th><th>type</th><th>key"
      "</th><th>published</th><th>received</th></tr>";
  for (std::size_t i = 0; i < findings.size() && i < kShownOnPage; ++i) {
    const Finding& one = findings[i];
    out += "<tr>" + cell("td", reconcile::to_string(one.kind)) +
           cell("td", printable(one.receiver, 24)) + cell("td", one.id.to_string(), "c") +
           cell("td", printable(one.type, 24)) + cell("td", printable(key_of(one), 24)) +
           cell("td", time_of(one.published), "c") + cell("td", time_of(one.received), "c") +
           "</tr>";
  }
  out += "</table>";
  const std::uint64_t all = report.outcome.counts.findings();
  if (all > kShownOnPage)
    out += "<p>" + config::human_count(all - kShownOnPage) +
           " more. This file holds the first 1,000 of each kind as JSON, unless --findings said "
           "otherwise; the digest covers every one.</p>";
  return out;
}

constexpr std::string_view kStyle =
    "@page{size:A4;margin:14mm}body{font:12px/1.4 system-ui,sans-serif;max-width:186mm;margin:14mm "
    "auto;color:#111;background:#fff}@media print{body{margin:0;font-size:10px}}h1{font-size:17px;"
    "margin:0 0 4px}h2{font-size:12px;margin:12px 0 2px}table{border-collapse:collapse;width:100%}"
    "th,td{text-align:left;padding:1px 8px 1px 0;vertical-align:top;font-weight:400}th{color:#444;"
    "white-space:nowrap}td.n{text-align:right;font-variant-numeric:tabular-nums;width:7em}.c{"
    "font-family:ui-monospace,monospace;font-size:.82em}.v{font-size:14px;margin:0 0 8px}.bad th,"
    ".bad td{color:#a11212;font-weight:600}.f tr:first-child th{border-bottom:1px solid #999}code{"
    "font-size:.86em;overflow-wrap:anywhere}footer{margin-top:12px;border-top:1px solid #999;"
    "padding-top:4px;color:#444}p{margin:3px 0}";

std::string facts_table(const ReconcileReport& report, const Json& document) {
  const auto row = [](std::string_view name, std::string_view value) {
    return "<tr>" + cell("th", name) + cell("td", value) + "</tr>";
  };
  const auto read = [](const reconcile::Place& place) {
    return place.store + (place.login.empty() ? "" : ", read as " + place.login) + ", from " +
           config::iso_time(place.at);
  };
  std::string out = "<table>";
  out += row("outbox", report.outbox + ": " + read(report.outbox_place));
  out += row("relay", report.relay);
  out += row(report.is_topic ? "topic" : "inbox",
             report.receiver + " in " + report.receiver_store + ": " + read(report.receiver_place));
  out += row("judged time", config::iso_time(report.from) + " to " + config::iso_time(report.to));
  for (const std::string& limit : report.limits) out += row("because", limit);
  if (document.contains("late_after"))
    out += row("late", "later than " + document["late_after"].get<std::string>());
  return out + "</table>";
}

}  // namespace

Json json_of(const ReconcileReport& report, const ReconcileRequest& request) {
  const reconcile::Outcome& outcome = report.outcome;
  Json asked = Json::object();
  if (request.from) asked["from"] = config::iso_time(*request.from);
  if (request.to) asked["to"] = config::iso_time(*request.to);
  Json counts{{"events", outcome.counts.events}, {"received", outcome.counts.received}};
  for (const Count& one : kFound) counts[one.name] = outcome.counts.*one.value;
  for (const Count& one : kApart) counts[one.name] = outcome.counts.*one.value;
  for (const Count& one : kNoted) counts[one.name] = outcome.counts.*one.value;
  Json findings = Json::array();
  for (const Finding& one : outcome.findings) findings.push_back(json_of(one));
  Json receiver = json_of(report.receiver_store, report.receiver_place);
  receiver["kind"] = report.is_topic ? "topic" : "inbox";
  receiver["name"] = report.receiver;
  receiver["handlers"] = report.receivers;
  Json document{
      {"verdict", verdict_of(report)},
      {"outbox", json_of(report.outbox, report.outbox_place)},
      {"relay", report.relay},
      {"receiver", receiver},
      {"asked", asked},
      {"judged", {{"from", config::iso_time(report.from)}, {"to", config::iso_time(report.to)}}},
      {"limits", report.limits},
      {"has_other_sources", report.has_other_sources},
      {"counts", counts},
      {"longest_us", outcome.longest.count()},
      {"findings", findings},
      {"findings_digest", outcome.findings_digest},
      {"compared_digest", outcome.compared_digest},
      {"made_at", config::iso_time(report.ended)},
      {"version", DOVETAIL_VERSION}};
  if (request.late_after) document["late_after"] = config::write_duration(*request.late_after);
  const std::string digest = to_hex(Sha256().add(digested_text(document)).finish());
  document["digest"] = digest;
  return document;
}

std::string verdict_of(const ReconcileReport& report) {
  const Counts& counts = report.outcome.counts;
  std::string found;
  for (const Count& one : kFound) {
    if (counts.*one.value == 0) continue;
    found += (found.empty() ? "" : ", ") + config::human_count(counts.*one.value) + " " + one.name;
  }
  const std::string all = config::human_count(counts.events) + " events of " + report.outbox;
  if (found.empty()) return "All " + all + " are accounted for in " + receiver_of(report) + ".";
  return "Of " + all + ", " + receiver_of(report) + " has " + found +
         ". All others are accounted for.";
}

std::string text_of(const ReconcileReport& report, const Json& document) {
  const Counts& counts = report.outcome.counts;
  std::string text = verdict_of(report) + "\n\n";
  text +=
      "judged     " + config::iso_time(report.from) + " to " + config::iso_time(report.to) + "\n";
  for (const std::string& limit : report.limits) text += "           because " + limit + "\n";
  Table table({"WHAT", ">EVENTS", "MEANING"});
  table.add({"published", config::human_count(counts.events), "in the judged time"});
  table.add({"received", config::human_count(counts.received),
             "the longest took " + config::human_duration(report.outcome.longest)});
  for (const Count& one : kFound)
    table.add({one.name, config::human_count(counts.*one.value), one.meaning});
  const auto add = [&](const Count& one) {
    if (counts.*one.value != 0)
      table.add({one.name, config::human_count(counts.*one.value), one.meaning});
  };
  for (const Count& one : kApart) add(one);
  for (const Count& one : kNoted) add(one);
  text += "\n" + table.to_string();
  if (!report.outcome.findings.empty()) {
    Table found({"FOUND", "RECEIVER", "ID", "TYPE", "KEY", "PUBLISHED", "RECEIVED", "AT"});
    for (const Finding& one : report.outcome.findings)
      found.add({std::string(reconcile::to_string(one.kind)), printable(one.receiver, 40),
                 one.id.to_string(), printable(one.type, 30), printable(key_of(one), 40),
                 time_of(one.published), time_of(one.received), place_of(one)});
    text += "\n" + found.to_string();
    const std::uint64_t more = counts.findings() - report.outcome.findings.size();
    if (more != 0)
      text += config::human_count(more) + " more findings are not listed; see --findings\n";
  }
  return text + "\ndigest     " + document["digest"].get<std::string>() + "\n";
}

std::string page_of(const ReconcileReport& report, const Json& document) {
  Json undigested = document;
  undigested.erase("digest");
  const Counts& counts = report.outcome.counts;
  const bool is_well = counts.findings() == 0;
  std::string page =
      "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta "
      "http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'\"><title>Reconcile " +
      html(report.outbox) + " and " + html(report.receiver) + "</title><style>";
  page += std::string(kStyle) + "</style></head><body><h1>Reconcile: " + html(report.outbox) +
          " and " + html(report.receiver) + "</h1>";
  page += cell("p", verdict_of(report), is_well ? "v" : "v bad");
  page += facts_table(report, document);
  page += "<h2>Events</h2><table>";
  page += "<tr>" + cell("th", "published") + cell("td", config::human_count(counts.events), "n") +
          cell("td", "in the judged time") + "</tr><tr>" + cell("th", "received") +
          cell("td", config::human_count(counts.received), "n") +
          cell("td", "the longest took " + config::human_duration(report.outcome.longest)) +
          "</tr>";
  page += count_rows(kFound, counts, true) + "</table><h2>Not received, and no finding</h2><table>";
  page += count_rows(kApart, counts, false) + "</table><h2>Good to know</h2><table>";
  page += count_rows(kNoted, counts, false) + "</table><h2>Findings</h2>" + findings_table(report);
  page += "<footer>Made at " + config::iso_time(report.ended) + " by dovetail " + DOVETAIL_VERSION +
          ".<br>SHA-256 of this report: <code>" + document["digest"].get<std::string>() +
          "</code><br>of all findings: <code>" + report.outcome.findings_digest +
          "</code><br>of all that was compared: <code>" + report.outcome.compared_digest +
          "</code></footer><script type=\"application/json\" id=\"report\">" +
          digested_text(undigested) + "</script></body></html>\n";
  return page;
}

Status write_page(const std::filesystem::path& file, const std::string& page) {
  const std::filesystem::path unfinished = file.string() + ".unfinished";
  std::error_code failed;
  {
    std::ofstream out(unfinished, std::ios::binary | std::ios::trunc);
    out << page;
    out.close();
    if (!out) failed = std::make_error_code(std::errc::io_error);
  }
  if (!failed) std::filesystem::rename(unfinished, file, failed);
  if (!failed) return {};
  std::error_code ignored;
  std::filesystem::remove(unfinished, ignored);
  return fail(Errc::unavailable, "cannot write the report to " + file.string() + ": " +
                                     failed.message() + "; check the folder and the disk");
}

}  // namespace dovetail::app

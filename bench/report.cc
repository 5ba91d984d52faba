#include "report.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

namespace dovetail::bench {

namespace {

struct CpuTimes {
  std::uint64_t stolen = 0;
  std::uint64_t total = 0;
};

CpuTimes read_cpu_times() {
  std::ifstream file("/proc/stat");
  std::string line;
  std::getline(file, line);
  std::istringstream fields(line);
  std::string label;
  fields >> label;
  CpuTimes times;
  std::uint64_t value = 0;
  for (int column = 0; column < 8 && fields >> value; ++column) {
    times.total += value;
    if (column == 7) times.stolen = value;
  }
  return times;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::string target_text(const Figure& figure) {
  if (figure.at_least) return fmt::format(">= {:g}", *figure.at_least);
  if (figure.at_most) return fmt::format("<= {:g}", *figure.at_most);
  return "-";
}

}  // namespace

const std::string kPayload =
    R"({"order_id":123456,"customer":"c-778812","lines":[)"
    R"({"sku":"A-100","quantity":2,"price":1999},{"sku":"B-220","quantity":1,"price":5950}],)"
    R"("currency":"EUR","total":9948,"note":"leave at the door",)"
    R"("placed_at":"2026-01-01T12:00:00Z","channel":"web","shipping":{"method":"standard"}})";

StealMeter::StealMeter() {
  const CpuTimes times = read_cpu_times();
  stolen_ = times.stolen;
  total_ = times.total;
}

double StealMeter::share() const {
  const CpuTimes times = read_cpu_times();
  const std::uint64_t total = times.total - total_;
  return total == 0 ? 0 : static_cast<double>(times.stolen - stolen_) / static_cast<double>(total);
}

bool Figure::met() const {
  return (!at_least || value >= *at_least) && (!at_most || value <= *at_most);
}

std::vector<double> least_disturbed(int runs, int kept,
                                    const std::function<std::vector<double>()>& measure) {
  std::vector<std::pair<double, std::vector<double>>> all;
  for (int run = 1; run <= runs; ++run) {
    const StealMeter steal;
    std::vector<double> values = measure();
    const double share = steal.share();
    std::string line =
        fmt::format("  run {}/{}, {:.1f} % of the CPU stolen:", run, runs, share * 100);
    for (const double value : values) line += fmt::format(" {:.4g}", value);
    progress(line);
    all.emplace_back(share, std::move(values));
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  all.resize(static_cast<std::size_t>(std::min(kept, runs)));
  std::vector<double> medians;
  for (std::size_t i = 0; i < all[0].second.size(); ++i) {
    std::vector<double> values;
    for (const auto& run : all) values.push_back(run.second[i]);
    medians.push_back(median(std::move(values)));
  }
  return medians;
}

void Report::add(Figure figure) { figures_.push_back(std::move(figure)); }

void Report::measure(std::vector<Wanted> figures,
                     const std::function<std::vector<double>()>& measure) {
  const std::vector<double> values = least_disturbed(5, 3, measure);
  if (values.size() != figures.size()) {
    fmt::print(stderr, "bench: {} figures, but {} values\n", figures.size(), values.size());
    std::exit(2);
  }
  for (std::size_t i = 0; i < values.size(); ++i)
    add({std::move(figures[i].name), values[i], std::move(figures[i].unit), figures[i].at_least,
         figures[i].at_most});
}

void run_parts(Report& report, const std::vector<std::string>& wanted,
               const std::vector<Part>& parts) {
  for (const std::string& name : wanted) {
    if (std::any_of(parts.begin(), parts.end(), [&](const Part& one) { return one.name == name; }))
      continue;
    fmt::print(stderr, "bench: there is no part '{}'\n", name);
    std::exit(2);
  }
  for (const Part& part : parts)
    if (wanted.empty() || std::find(wanted.begin(), wanted.end(), part.name) != wanted.end())
      part.run(report);
}

int Report::finish() const {
  bool all_met = true;
  nlohmann::json list = nlohmann::json::array();
  fmt::print("\n{:<58} {:>14} {:<12} {:>10}  {}\n", "figure", "value", "unit", "target", "met");
  for (const Figure& figure : figures_) {
    const bool has_target = figure.at_least || figure.at_most;
    fmt::print("{:<58} {:>14.4g} {:<12} {:>10}  {}\n", figure.name, figure.value, figure.unit,
               target_text(figure), !has_target ? "-" : (figure.met() ? "yes" : "NO"));
    all_met = all_met && figure.met();
    nlohmann::json target = nullptr;
    if (has_target) target = figure.at_least ? *figure.at_least : *figure.at_most;
    list.push_back({{"name", figure.name},
                    {"value", figure.value},
                    {"unit", figure.unit},
                    {"target", target},
                    {"met", figure.met()}});
  }
  std::filesystem::create_directories("build/bench");
  const std::string path = "build/bench/" + name_ + ".json";
  std::ofstream(path) << list.dump(2) << "\n";
  fmt::print("\nwritten to {}\n", path);
  if (!all_met) fmt::print("a target was missed\n");
  return all_met ? 0 : 1;
}

void progress(std::string_view text) {
  fmt::print("{}\n", text);
  std::fflush(stdout);
}

void give_up(std::string_view why) {
  fmt::print(stderr, "bench: {}\n", why);
  std::exit(2);
}

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace dovetail::bench

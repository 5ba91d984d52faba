// What every benchmark shares: figures with targets, repeated runs of which the least disturbed
// count, one table, one JSON file.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dovetail::bench {

// CPU time that the host took away from this machine, as a share of all CPU time since
// construction.
class StealMeter {
 public:
  StealMeter();
  double share() const;

 private:
  std::uint64_t stolen_;
  std::uint64_t total_;
};

struct Figure {
  std::string name;
  double value = 0;
  std::string unit;
  // What is to be reached: at least, or at most. None: told for information.
  std::optional<double> at_least{};
  std::optional<double> at_most{};

  bool met() const;
};

// Runs `measure` `runs` times, keeps the `kept` runs during which the least CPU was stolen, and
// returns the median of each value it measured. Both sides of a ratio belong into one call, so that
// they meet the same weather.
std::vector<double> least_disturbed(int runs, int kept,
                                    const std::function<std::vector<double>()>& measure);

// A figure before it is measured.
struct Wanted {
  std::string name;
  std::string unit;
  std::optional<double> at_least{};
  std::optional<double> at_most{};
};

class Report {
 public:
  explicit Report(std::string name) : name_(std::move(name)) {}
  void add(Figure figure);
  // Runs `measure` five times; the three least disturbed runs count. `measure` returns a value for
  // each figure, in order.
  void measure(std::vector<Wanted> figures, const std::function<std::vector<double>()>& measure);
  // Prints the table, writes build/bench/NAME.json, and returns the exit code: 1 when a target was
  // missed.
  int finish() const;

 private:
  std::string name_;
  std::vector<Figure> figures_;
};

struct Part {
  std::string_view name;
  std::function<void(Report&)> run;
};
// Runs all parts, or those that `wanted` names. An unknown name ends the program.
void run_parts(Report& report, const std::vector<std::string>& wanted,
               const std::vector<Part>& parts);

// What an event of the benchmarks carries: about 300 bytes of JSON, as services write them.
extern const std::string kPayload;

void progress(std::string_view text);
[[noreturn]] void give_up(std::string_view why);  // ends the program
double seconds_now();
double cpu_seconds();  // user and system, of this process

}  // namespace dovetail::bench

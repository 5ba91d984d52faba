// Runs seeds of the simulation. See usage().
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/mutant.h"
#include "simulation/checker.h"
#include "simulation/simulation.h"
#include "simulation/sometimes.h"

namespace dovetail::sim {
namespace {

struct Report {
  std::vector<std::pair<std::string, std::string>> violations;
  std::map<std::string, std::uint64_t, std::less<>> counters;
  std::uint64_t trace_hash = 0;
  std::uint64_t steps = 0;
};

Report simulate(std::uint64_t seed, bool tracing) {
  Simulation simulation(Options(seed), tracing);
  simulation.run();
  if (simulation.world().violations().empty()) check(simulation);
  World& world = simulation.world();
  return {world.violations(), world.counters(), world.trace_hash(), world.steps()};
}

#ifdef DOVETAIL_MUTANTS
struct NamedMutant {
  const char* name;
  Mutant mutant;
};
#define DOVETAIL_NAMED(name) \
  NamedMutant { #name, Mutant::name }
constexpr NamedMutant kMutants[] = {
    DOVETAIL_NAMED(settle_before_confirm),
    DOVETAIL_NAMED(ack_before_inbox_commit),
    DOVETAIL_NAMED(no_key_block_after_refusal),
    DOVETAIL_NAMED(two_of_a_key_in_flight),
    DOVETAIL_NAMED(inbox_row_commits_first),
    DOVETAIL_NAMED(stale_epoch_accepted),
    DOVETAIL_NAMED(confirmation_counted_twice),
    DOVETAIL_NAMED(settle_before_park),
    DOVETAIL_NAMED(unconfirmed_forgotten_on_reopen),
    DOVETAIL_NAMED(outage_burns_attempts),
    DOVETAIL_NAMED(deadline_ignored),
    DOVETAIL_NAMED(ready_not_recalled),
    DOVETAIL_NAMED(parked_past_flight),
    DOVETAIL_NAMED(redelivery_burns_attempts),
    DOVETAIL_NAMED(outage_counts_attempts),
    DOVETAIL_NAMED(attempts_never_count),
    DOVETAIL_NAMED(busy_counts_attempts),
    DOVETAIL_NAMED(sick_sink_not_probed),
    DOVETAIL_NAMED(asides_lose_attempts),
    DOVETAIL_NAMED(confirmed_resent_after_stop),
    DOVETAIL_NAMED(blocked_keys_not_asked),
    DOVETAIL_NAMED(open_waited_for),
    DOVETAIL_NAMED(crash_not_noticed),
    DOVETAIL_NAMED(store_clock_trusted),
    DOVETAIL_NAMED(far_due_waited_for),
    DOVETAIL_NAMED(slow_batches_not_cut),
    DOVETAIL_NAMED(hold_obeyed_late),
};
#undef DOVETAIL_NAMED
Mutant chosen_mutant = Mutant::none;
#endif

void take_mutant() {
#ifdef DOVETAIL_MUTANTS
  active_mutant = chosen_mutant;
#endif
}

// The sum over many seeds.
class Totals {
 public:
  void add(std::uint64_t seed, const Report& report) {
    std::lock_guard lock(mutex_);
    for (const auto& [name, count] : report.counters) counters_[name] += count;
    steps_ += report.steps;
    if (report.violations.empty()) return;
    ++failed_;
    for (const auto& [rule, text] : report.violations) ++rules_[rule];
    if (failed_ > 20) return;
    const auto& [rule, text] = report.violations.front();
    std::printf("seed %llu: %s: %s\n  replay it with: dovetail_sim --seed %llu\n",
                static_cast<unsigned long long>(seed), rule.c_str(), text.c_str(),
                static_cast<unsigned long long>(seed));
    std::fflush(stdout);
  }

  int finish(std::uint64_t seeds, bool all_counters_wanted) {
    int missed = 0;
    if (all_counters_wanted) {
      for (const char* name : kSometimes) {
        if (counters_[name] > 0) continue;
        ++missed;
        std::printf("never happened: %s\n", name);
      }
    }
    const auto broken = [&](const char* a, const char* b) {
      return static_cast<unsigned long long>(rules_[a] + (b != nullptr ? rules_[b] : 0));
    };
    const unsigned long long lost = broken("loss", "lost effect");
    const unsigned long long phantom = broken("phantom", nullptr);
    const unsigned long long reordered = broken("order", "effect order");
    const unsigned long long doubled = broken("double effect", nullptr);
    std::printf("%llu steps, %zu kinds of rare branches taken\n",
                static_cast<unsigned long long>(steps_), counters_.size());
    for (const auto& [rule, count] : rules_)
      if (count > 0)
        std::printf("rule \"%s\" broken %llu times\n", rule.c_str(),
                    static_cast<unsigned long long>(count));
    std::printf("%llu seeds: %llu lost, %llu phantom, %llu reordered, %llu double effects\n",
                static_cast<unsigned long long>(seeds), lost, phantom, reordered, doubled);
    return failed_ > 0 || missed > 0 ? 1 : 0;
  }

  void print_counters() {
    for (const auto& [name, count] : counters_)
      std::printf("%10llu  %s\n", static_cast<unsigned long long>(count), name.c_str());
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::uint64_t, std::less<>> counters_;
  std::map<std::string, std::uint64_t, std::less<>> rules_;
  std::uint64_t steps_ = 0;
  std::uint64_t failed_ = 0;
};

constexpr std::uint64_t kEveryCounterFrom =
    1000;  // with fewer seeds, some branches may not be taken

int run_many(std::uint64_t first, std::uint64_t seeds, unsigned jobs, bool verbose) {
  Totals totals;
  std::atomic<std::uint64_t> next{first};
  const auto work = [&] {
    take_mutant();
    for (std::uint64_t seed = next++; seed < first + seeds; seed = next++) {
      Report report = simulate(seed, false);
      // Checks determinism: the same seed must give the same history.
      if (seed % 50 == 0 && simulate(seed, false).trace_hash != report.trace_hash)
        report.violations.emplace_back("determinism", "two runs of the seed differ");
      totals.add(seed, report);
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < jobs; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  if (verbose) totals.print_counters();
  return totals.finish(seeds, seeds >= kEveryCounterFrom);
}

int run_one(std::uint64_t seed) {
  take_mutant();
  std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed),
              Options(seed).text().c_str());
  const Report report = simulate(seed, true);
  for (const auto& [rule, text] : report.violations)
    std::printf("broken: %s: %s\n", rule.c_str(), text.c_str());
  std::printf("trace hash %016llx, %zu violations\n",
              static_cast<unsigned long long>(report.trace_hash), report.violations.size());
  return report.violations.empty() ? 0 : 1;
}

#ifdef DOVETAIL_MUTANTS
// Exit code of the child that hunts one mutant. 0: caught.
int hunt(const NamedMutant& mutant, std::uint64_t seeds) {
  active_mutant = mutant.mutant;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const Report report = simulate(seed, false);
    if (report.violations.empty()) continue;
    const auto& [rule, text] = report.violations.front();
    std::printf("%-32s caught by seed %llu, rule \"%s\": %s\n", mutant.name,
                static_cast<unsigned long long>(seed), rule.c_str(), text.c_str());
    std::fflush(stdout);
    return 0;
  }
  std::printf("%-32s NOT caught by %llu seeds\n", mutant.name,
              static_cast<unsigned long long>(seeds));
  std::fflush(stdout);
  return 1;
}

// Each in its own process, because a mutant may also trip an assertion, which counts as caught.
int hunt_all(std::uint64_t seeds) {
  int escaped = 0;
  for (const NamedMutant& mutant : kMutants) {
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) _exit(hunt(mutant, seeds));
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status)) {
      std::printf("%-32s caught by an assertion\n", mutant.name);
    } else if (WEXITSTATUS(status) != 0) {
      ++escaped;
    }
  }
  std::printf("%zu mutants, %d escaped\n", std::size(kMutants), escaped);
  return escaped == 0 ? 0 : 1;
}
#endif

int usage() {
  std::printf(
      "dovetail_sim --seeds N [--first K] [--jobs J] [--verbose]   run N seeds\n"
      "dovetail_sim --seed K                                       run one, with its trace\n"
      "dovetail_sim_mutants --hunt N                               catch every mutant in N seeds\n"
      "dovetail_sim_mutants --mutant NAME ...                      any of the above with a bug "
      "in\n");
  return 2;
}

int main_of(int argc, char** argv) {
  std::uint64_t seeds = 0;
  std::uint64_t first = 1;
  std::uint64_t one = 0;
  std::uint64_t hunted = 0;
  unsigned jobs = std::max(1U, std::thread::hardware_concurrency());
  bool verbose = false;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--verbose") {
      verbose = true;
      continue;
    }
    if (i + 1 == argc) return usage();
    const char* const text = argv[++i];
    const std::uint64_t value = std::strtoull(text, nullptr, 10);
    if (option == "--seeds") {
      seeds = value;
    } else if (option == "--first") {
      first = value;
    } else if (option == "--jobs") {
      jobs = static_cast<unsigned>(std::max<std::uint64_t>(1, value));
    } else if (option == "--seed") {
      one = value;
    } else if (option == "--hunt") {
      hunted = value;
#ifdef DOVETAIL_MUTANTS
    } else if (option == "--mutant") {
      for (const NamedMutant& mutant : kMutants)
        if (std::strcmp(mutant.name, text) == 0) chosen_mutant = mutant.mutant;
      if (chosen_mutant == Mutant::none) return usage();
#endif
    } else {
      return usage();
    }
  }
#ifdef DOVETAIL_MUTANTS
  if (hunted > 0) return hunt_all(hunted);
#endif
  if (one > 0) return run_one(one);
  if (seeds > 0 && hunted == 0) return run_many(first, seeds, jobs, verbose);
  return usage();
}

}  // namespace
}  // namespace dovetail::sim

int main(int argc, char** argv) { return dovetail::sim::main_of(argc, argv); }

// Reading the server's log: beside pg_recvlogical on the same backlog, beside windows over the
// table, how soon after COMMIT an event is there, and how much memory all of that takes.
#include <fmt/format.h>
#include <libpq-fe.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/relay/relay.h"
#include "dovetail/postgres.h"
#include "host/host.h"
#include "null_sink.h"
#include "postgres/lane/lease.h"
#include "postgres/lane/parking.h"
#include "postgres/outbox/source.h"
#include "postgres/wal/source.h"
#include "raw_postgres.h"
#include "report.h"

namespace dovetail::bench {
namespace {

using namespace std::chrono_literals;
using postgres::ReadMode;

constexpr int kBacklog = 1'000'000;  // in transactions of one row
constexpr int kBulk = 600'000;       // in transactions of kBulkRows
constexpr int kBulkRows = 10'000;
constexpr double kLatencySeconds = 8;
constexpr int kWriters = 4;

std::string one_value(const Raw& db, const std::string& sql) {
  PGresult* const result = db.with_params(sql.c_str(), {});
  require(PQntuples(result) == 1, "no row: " + sql);
  std::string value = PQgetvalue(result, 0, 0);
  PQclear(result);
  return value;
}

// The most memory that this process has held since the mark was taken back.
void forget_peak_memory() { std::ofstream("/proc/self/clear_refs") << "5"; }
double peak_memory_mib() {
  std::ifstream file("/proc/self/status");
  std::string line;
  while (std::getline(file, line))
    if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) / 1024;
  return 0;
}

// One relay from the outbox into a null sink, in a thread of its own.
class RunningRelay {
 public:
  // `slot`: where the log is read; empty: the relay makes its own.
  RunningRelay(const std::string& conninfo, const std::string& name, ReadMode mode,
               const std::string& slot = "")
      : reader_{.conninfo = conninfo, .relay = name},
        source_(reader_, windows_, system_clock(), metrics_, options(mode, slot)) {}
  ~RunningRelay() { stop(); }
  RunningRelay(const RunningRelay&) = delete;
  RunningRelay& operator=(const RunningRelay&) = delete;

  void start() {
    thread_ = std::jthread([this](std::stop_token stop) {
      const Status ran = relay_.run(stop);
      require(ran.has_value(), ran ? "" : ran.error().text);
    });
  }
  void stop() {
    if (!thread_.joinable()) return;
    thread_.request_stop();
    thread_.join();
  }
  void wait_until_settled(std::uint64_t events) const {
    while (metrics_.settled < events) std::this_thread::sleep_for(1ms);
    require(metrics_.settled == events, "the relay delivered more than there was");
  }
  void wait_until_it_streams() const {
    while (metrics_.streams == 0) std::this_thread::sleep_for(1ms);
  }
  NullSink& sink() { return sink_; }

 private:
  static postgres::WalSourceOptions options(ReadMode mode, const std::string& slot) {
    postgres::WalSourceOptions options;
    options.reading.mode = mode;
    options.slot = slot;
    options.reading.retained_wal_max = std::int64_t{1} << 40;
    return options;
  }

  postgres::Reader reader_;
  postgres::PostgresLease lease_{reader_, system_clock(), "bench", std::chrono::seconds(10)};
  postgres::PostgresSource windows_{reader_, system_clock()};
  postgres::PostgresParking parking_{reader_};
  NullSink sink_;
  RelayMetrics metrics_;
  postgres::WalSource source_;
  Relay relay_{RelayPorts{.source = source_,
                          .sink = sink_,
                          .parking = parking_,
                          .lease = lease_,
                          .clock = system_clock(),
                          .metrics = metrics_},
               RelayOptions{.batch_events_max = 2000}};
  std::jthread thread_;
};

// A part of the log with a known number of events. Every run reads it through a slot of its own,
// which stands where this one does.
class Backlog {
 public:
  Backlog(const std::string& conninfo, int events, int rows)
      : conninfo_(conninfo), db_(conninfo), events_(events) {
    db_.run("TRUNCATE dovetail.outbox");
    db_.run("SELECT pg_create_logical_replication_slot('bench_backlog', 'pgoutput')");
    db_.run("SET synchronous_commit = off");
    // DO takes no parameters.
    PQclear(db_.with_params("SELECT set_config('bench.payload', $1, false)", {kPayload.c_str()}));
    db_.run(fmt::format("DO $do$ BEGIN FOR t IN 1..{} LOOP "
                        "INSERT INTO dovetail.outbox(aggregate_type, aggregate_id, type, payload) "
                        "SELECT 'order', ((t + i) % 5000)::text, 'OrderPlaced', "
                        "current_setting('bench.payload')::bytea FROM generate_series(1, {}) i; "
                        "COMMIT; END LOOP; END $do$",
                        events / rows, rows)
                .c_str());
    end_ = one_value(db_, "SELECT pg_current_wal_insert_lsn()");
    // Behind the end something must follow, at which pg_recvlogical sees that it is there.
    db_.run("SELECT pg_logical_emit_message(true, 'bench', 'end')");
    db_.run("VACUUM ANALYZE dovetail.outbox");
    db_.run("CHECKPOINT");
  }
  ~Backlog() { db_.run("SELECT pg_drop_replication_slot('bench_backlog')"); }
  Backlog(const Backlog&) = delete;
  Backlog& operator=(const Backlog&) = delete;

  struct Speed {
    double per_second = 0;
    double reader_us = 0;  // CPU of the reader for each event
  };
  Speed by_pg_recvlogical() const {
    const std::string slot = copied_slot();
    const std::string program =
        one_value(db_, "SELECT setting FROM pg_config WHERE name = 'BINDIR'") + "/pg_recvlogical";
    const std::string command = fmt::format(
        "{} -d '{}' --slot {} --start --no-loop --endpos {} -f /dev/null -o proto_version=1 -o "
        "publication_names=dovetail_outbox -o binary=true",
        program, conninfo_, slot, end_);
    const double cpu = children_cpu_seconds();
    const double start = seconds_now();
    require(std::system(command.c_str()) == 0, "pg_recvlogical failed");
    const Speed speed = speed_since(start, children_cpu_seconds() - cpu);
    drop(slot);
    return speed;
  }
  Speed by_relay(ReadMode mode) const {
    const std::string slot = mode == ReadMode::wal ? copied_slot() : "";
    Speed speed;
    {
      RunningRelay relay(conninfo_, fmt::format("bench{}", ++names_made), mode, slot);
      const double cpu = cpu_seconds();
      const double start = seconds_now();
      relay.start();
      relay.wait_until_settled(static_cast<std::uint64_t>(events_));
      speed = speed_since(start, cpu_seconds() - cpu);
    }
    if (!slot.empty()) drop(slot);
    return speed;
  }

 private:
  std::string copied_slot() const {
    std::string name = fmt::format("bench_{}", ++names_made);
    PQclear(db_.with_params("SELECT pg_copy_logical_replication_slot('bench_backlog', $1)",
                            {name.c_str()}));
    return name;
  }
  void drop(const std::string& slot) const {
    while (one_value(db_, "SELECT active FROM pg_replication_slots WHERE slot_name = '" + slot +
                              "'") == "t")
      std::this_thread::sleep_for(1ms);
    PQclear(db_.with_params("SELECT pg_drop_replication_slot($1)", {slot.c_str()}));
  }
  static double children_cpu_seconds() {
    rusage used{};
    getrusage(RUSAGE_CHILDREN, &used);
    const auto seconds = [](const timeval& time) {
      return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
    };
    return seconds(used.ru_utime) + seconds(used.ru_stime);
  }
  Speed speed_since(double start, double cpu) const {
    return {events_ / (seconds_now() - start), 1e6 * cpu / events_};
  }

  std::string conninfo_;
  Raw db_;
  int events_;
  std::string end_;
  static inline int names_made = 0;
};

// Both sides of a rate at which transactions are written: how long COMMIT takes, and how long after
// COMMIT was sent the event is in the relay's sink. Medians and 99th percentiles, in milliseconds.
struct Latency {
  double commit_p50 = 0;
  double commit_p99 = 0;
  double arrival_p50 = 0;
  double arrival_p99 = 0;
};

double milliseconds_now() { return 1e3 * seconds_now(); }

double quantile(std::vector<double>& values, std::size_t percent) {
  require(!values.empty(), "nothing was measured");
  std::sort(values.begin(), values.end());
  return values[values.size() * percent / 100];
}

class LatencyMeter {
 public:
  LatencyMeter(const std::string& conninfo, int per_second)
      : conninfo_(conninfo), count_(static_cast<int>(per_second * kLatencySeconds) / kWriters) {
    for (std::vector<Times>& times : times_)
      times = std::vector<Times>(static_cast<std::size_t>(count_));
    pause_ = std::chrono::duration<double>(static_cast<double>(kWriters) / per_second);
  }

  Latency run(const std::string& name) {
    RunningRelay relay(conninfo_, name, ReadMode::automatic);
    std::atomic<int> arrived = 0;
    relay.sink().on_events = [&](Events events) {
      const double now = milliseconds_now();
      for (const Event* event : events) {
        if (event->type != "Timed") continue;
        times_of(event->aggregate_id).arrived = now;
        ++arrived;
      }
    };
    relay.start();
    relay.wait_until_it_streams();
    {
      std::vector<std::jthread> writers;
      for (int writer = 0; writer < kWriters; ++writer)
        writers.emplace_back([this, writer] { write(writer); });
    }
    while (arrived < kWriters * count_) std::this_thread::sleep_for(1ms);
    relay.stop();
    return result();
  }

 private:
  // By steady_clock, in milliseconds.
  struct Times {
    double sent = 0;  // just before COMMIT is
    double returned = 0;
    double arrived = 0;
  };

  Times& times_of(std::string_view key) {
    const std::size_t dash = key.find('-');
    return times_[std::stoul(std::string(key.substr(0, dash)))]
                 [std::stoul(std::string(key.substr(dash + 1)))];
  }
  void write(int writer) {
    const Raw db(conninfo_);
    const Result<postgres::Publisher> publisher = postgres::Publisher::open(db.get());
    require(publisher.has_value(), "prepare failed");
    auto next = std::chrono::steady_clock::now();
    for (int i = 0; i < count_; ++i) {
      next += std::chrono::duration_cast<std::chrono::steady_clock::duration>(pause_);
      std::this_thread::sleep_until(next);
      const std::string key = fmt::format("{}-{}", writer, i);
      db.run("BEGIN");
      NewEvent event;
      event.aggregate_type = "order";
      event.aggregate_id = key;
      event.type = "Timed";
      event.payload = kPayload;
      require(publisher->publish(event).has_value(), "publish failed");
      Times& times = times_of(key);
      times.sent = milliseconds_now();
      db.run("COMMIT");
      times.returned = milliseconds_now();
    }
  }
  Latency result() {
    std::vector<double> commits;
    std::vector<double> arrivals;
    for (const std::vector<Times>& all : times_) {
      for (const Times& times : all) {
        commits.push_back(times.returned - times.sent);
        arrivals.push_back(times.arrived - times.sent);
      }
    }
    return {quantile(commits, 50), quantile(commits, 99), quantile(arrivals, 50),
            quantile(arrivals, 99)};
  }

  std::string conninfo_;
  int count_;
  std::chrono::duration<double> pause_{};
  std::array<std::vector<Times>, kWriters> times_;
};

void bench_single_rows(const std::string& conninfo, Report& report) {
  progress(fmt::format("writing {} transactions of one row", kBacklog));
  const Backlog backlog(conninfo, kBacklog, 1);
  progress("reading them by pg_recvlogical, by a relay with mode = wal, and with mode = auto");
  report.measure({{"one-row transactions against pg_recvlogical", "ratio", 0.9},
                  {"a backlog with mode = auto, to mode = wal", "ratio", 3},
                  {"one-row transactions, mode = wal", "events/s"},
                  {"one-row transactions, CPU of the relay", "us/event"},
                  {"one-row transactions, pg_recvlogical", "events/s"},
                  {"one-row transactions, CPU of pg_recvlogical", "us/event"},
                  {"a backlog with mode = auto", "events/s"}},
                 [&] {
                   const auto theirs = backlog.by_pg_recvlogical();
                   const auto ours = backlog.by_relay(ReadMode::wal);
                   const auto automatic = backlog.by_relay(ReadMode::automatic);
                   return std::vector<double>{ours.per_second / theirs.per_second,
                                              automatic.per_second / ours.per_second,
                                              ours.per_second,
                                              ours.reader_us,
                                              theirs.per_second,
                                              theirs.reader_us,
                                              automatic.per_second};
                 });
}

void bench_bulk(const std::string& conninfo, Report& report) {
  progress(fmt::format("writing {} events in transactions of {}", kBulk, kBulkRows));
  const Backlog backlog(conninfo, kBulk, kBulkRows);
  progress("reading them by pg_recvlogical and by a relay with mode = wal");
  const auto name = [](const char* what) {
    return fmt::format("transactions of {} rows{}", kBulkRows, what);
  };
  report.measure({{name(" against pg_recvlogical"), "ratio", 0.9},
                  {name(", mode = wal"), "events/s"},
                  {name(", CPU of the relay"), "us/event"},
                  {name(", pg_recvlogical"), "events/s"},
                  {name(", CPU of pg_recvlogical"), "us/event"}},
                 [&] {
                   const auto theirs = backlog.by_pg_recvlogical();
                   const auto ours = backlog.by_relay(ReadMode::wal);
                   return std::vector<double>{ours.per_second / theirs.per_second, ours.per_second,
                                              ours.reader_us, theirs.per_second, theirs.reader_us};
                 });
}

void bench_latency(const std::string& conninfo, Report& report) {
  for (const int per_second : {500, 2000}) {
    progress(fmt::format("commit to arrival at {} transactions a second", per_second));
    int number = 0;
    const std::string at = fmt::format(" at {} tx/s", per_second);
    report.measure(
        {{"commit to arrival, to the commit's own, p50" + at, "ratio", {}, 1.5},
         {"commit to arrival, p50" + at, "ms"},
         {"commit, p50" + at, "ms"},
         {"commit to arrival, p99" + at, "ms"},
         {"commit, p99" + at, "ms"}},
        [&] {
          Raw(conninfo).run("TRUNCATE dovetail.outbox");
          LatencyMeter meter(conninfo, per_second);
          const Latency latency = meter.run(fmt::format("latency{}_{}", per_second, ++number));
          return std::vector<double>{latency.arrival_p50 / latency.commit_p50, latency.arrival_p50,
                                     latency.commit_p50, latency.arrival_p99, latency.commit_p99};
        });
  }
}

void run(const std::string& conninfo, Report& report, const std::vector<std::string>& wanted) {
  forget_peak_memory();
  double peak = 0;
  run_parts(report, wanted,
            {{"single",
              [&](Report& to) {
                bench_single_rows(conninfo, to);
                peak = peak_memory_mib();
              }},
             {"bulk",
              [&](Report& to) {
                bench_bulk(conninfo, to);
                peak = peak_memory_mib();
              }},
             // Its writers are in this process, too.
             {"latency", [&](Report& to) { bench_latency(conninfo, to); }}});
  if (peak > 0)
    report.add({"most memory of the relay while it reads a backlog", peak, "MiB", {}, 64});
}

}  // namespace
}  // namespace dovetail::bench

int main(int count, char** arguments) {
  return dovetail::bench::on_postgres("wal", {arguments + 1, arguments + count},
                                      dovetail::bench::run);
}

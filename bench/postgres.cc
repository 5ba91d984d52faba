// How fast a backlog of PostgreSQL is drained beside the classic loop and beside a loop that only
// reads, how soon a commit is seen by polling, and what an idle relay costs.
#include "dovetail/postgres.h"

#include <fmt/format.h>
#include <libpq-fe.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/relay/relay.h"
#include "host/host.h"
#include "null_sink.h"
#include "postgres/lane/lease.h"
#include "postgres/lane/parking.h"
#include "postgres/outbox/source.h"
#include "raw_postgres.h"
#include "report.h"

namespace dovetail::bench {
namespace {

using namespace std::chrono_literals;

constexpr int kBacklog = 1'000'000;

// One lane of a relay from the outbox into a null sink, in a thread of its own.
class RunningRelay {
 public:
  RunningRelay(const std::string& conninfo, const std::string& name) {
    reader_.conninfo = conninfo;
    reader_.relay = name;
    const Status connected = postgres::connect(reader_);
    require(connected.has_value(), connected ? "" : connected.error().text);
    backend_ = PQbackendPID(reader_.connection.get());
  }
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
  std::uint64_t settled() const { return metrics_.settled; }
  int backend() const { return backend_; }
  NullSink& sink() { return sink_; }

 private:
  postgres::Reader reader_;
  int backend_ = 0;
  postgres::PostgresLease lease_{reader_, system_clock(), "bench", std::chrono::seconds(10)};
  postgres::PostgresSource source_{reader_, system_clock()};
  postgres::PostgresParking parking_{reader_};
  NullSink sink_;
  RelayMetrics metrics_;
  Relay relay_{RelayPorts{.source = source_,
                          .sink = sink_,
                          .parking = parking_,
                          .lease = lease_,
                          .clock = system_clock(),
                          .metrics = metrics_},
               RelayOptions{.batch_events_max = 2000}};
  std::jthread thread_;
};

// Both tables hold the same events. Ours is only read, so it serves every run.
void fill_outbox(const Raw& db) {
  db.run("TRUNCATE dovetail.outbox");
  db.prepare("own",
             "INSERT INTO dovetail.outbox(aggregate_type, aggregate_id, type, payload) "
             "SELECT 'order', (i % 5000)::text, 'OrderPlaced', $1::text::bytea FROM "
             "generate_series(1, 10000) i");
  for (int i = 0; i < kBacklog / 10'000; ++i) PQclear(db.prepared("own", {kPayload.c_str()}));
  db.run("VACUUM ANALYZE dovetail.outbox");
  db.run("DEALLOCATE ALL");
}

void fill_classic_outbox(const Raw& db) {
  db.run(
      "DROP TABLE IF EXISTS classic_outbox;"
      "CREATE TABLE classic_outbox(seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id uuid "
      "NOT NULL, aggregate_type text NOT NULL, aggregate_id text NOT NULL, event_type text NOT "
      "NULL, headers jsonb, payload jsonb NOT NULL, created_at timestamptz NOT NULL DEFAULT "
      "now(), sent_at timestamptz);"
      "CREATE INDEX ON classic_outbox(seq) WHERE sent_at IS NULL");
  db.prepare("classic",
             "INSERT INTO classic_outbox(id, aggregate_type, aggregate_id, event_type, payload) "
             "SELECT gen_random_uuid(), 'order', (i % 5000)::text, 'OrderPlaced', $1::text::jsonb "
             "FROM generate_series(1, 10000) i");
  for (int i = 0; i < kBacklog / 10'000; ++i) PQclear(db.prepared("classic", {kPayload.c_str()}));
  db.run("VACUUM ANALYZE classic_outbox");
  db.run("CHECKPOINT");
  db.run("DEALLOCATE ALL");
}

// Events a second, and the CPU that the reader and its server process take for each.
struct Drained {
  double per_second = 0;
  double reader_us = 0;
  double server_us = 0;
};

class DrainMeter {
 public:
  explicit DrainMeter(int server_pid)
      : server_pid_(server_pid), server_before_(process_cpu_seconds(server_pid)) {}
  Drained end() const {
    const double count = kBacklog;
    return {count / (seconds_now() - start_), 1e6 * (cpu_seconds() - reader_before_) / count,
            1e6 * (process_cpu_seconds(server_pid_) - server_before_) / count};
  }

 private:
  int server_pid_;
  double server_before_;
  double reader_before_ = cpu_seconds();
  double start_ = seconds_now();
};

Drained drain_by_dovetail(const std::string& conninfo, const std::string& name) {
  RunningRelay relay(conninfo, name);
  const DrainMeter meter(relay.backend());
  relay.start();
  while (relay.settled() < kBacklog) std::this_thread::sleep_for(1ms);
  return meter.end();
}

Drained drain_by_classic_loop(const std::string& conninfo) {
  const Raw db(conninfo);
  db.prepare(
      "take",
      "SELECT seq, id, aggregate_type, aggregate_id, event_type, headers, payload, created_at "
      "FROM classic_outbox WHERE sent_at IS NULL ORDER BY seq LIMIT 1000 FOR UPDATE SKIP LOCKED");
  db.prepare("mark", "UPDATE classic_outbox SET sent_at = now() WHERE seq = ANY($1::bigint[])");
  const DrainMeter meter(db.backend());
  int count = 0;
  while (true) {
    db.run("BEGIN");
    PGresult* rows = db.prepared("take", {});
    std::string taken = "{";
    for (int i = 0; i < PQntuples(rows); ++i) {
      if (i > 0) taken += ',';
      taken += PQgetvalue(rows, i, 0);
    }
    taken += '}';
    const int got = PQntuples(rows);
    PQclear(rows);
    if (got > 0) PQclear(db.prepared("mark", {taken.c_str()}));
    db.run("COMMIT");
    count += got;
    if (got == 0) break;
  }
  require(count == kBacklog, "the classic loop lost events");
  return meter.end();
}

Drained read_by_bare_cursor(const std::string& conninfo) {
  const Raw db(conninfo);
  db.prepare(
      "page",
      "SELECT seq, id, topic, aggregate_type, aggregate_id, type, content_type, headers, payload, "
      "aggregate_version, created_at FROM dovetail.outbox WHERE seq > $1::bigint ORDER BY seq "
      "LIMIT 2000");
  const DrainMeter meter(db.backend());
  std::uint64_t last = 0;
  int count = 0;
  while (true) {
    PGresult* rows = db.prepared("page", {std::to_string(last).c_str()}, 1);
    const int got = PQntuples(rows);
    if (got > 0) {
      const auto* bytes = reinterpret_cast<const unsigned char*>(PQgetvalue(rows, got - 1, 0));
      last = 0;
      for (int i = 0; i < 8; ++i) last = last << 8 | bytes[i];
    }
    PQclear(rows);
    count += got;
    if (got == 0) break;
  }
  require(count == kBacklog, "the bare cursor lost events");
  return meter.end();
}

double nanoseconds_now() {
  return static_cast<double>(std::chrono::steady_clock::now().time_since_epoch().count());
}

// From just before COMMIT is sent to the event in the relay, at 500 transactions a second from 4
// writers.
std::vector<double> commit_to_read_ms(const std::string& conninfo, const std::string& name) {
  RunningRelay relay(conninfo, name);
  std::mutex mutex;
  std::vector<double> waits;
  relay.sink().on_events = [&](Events events) {
    const double now = nanoseconds_now();
    const std::lock_guard lock(mutex);
    for (const Event* event : events) {
      if (event->type == "Timed")
        waits.push_back((now - std::stod(std::string(event->payload))) / 1e6);
    }
  };
  relay.start();
  std::vector<std::jthread> writers;
  for (int writer = 0; writer < 4; ++writer) {
    writers.emplace_back([&, writer] {
      const Raw db(conninfo);
      auto next = std::chrono::steady_clock::now();
      for (int i = 0; i < 1250; ++i) {
        next += 8ms;
        std::this_thread::sleep_until(next);
        db.run("BEGIN");
        const std::string key = fmt::format("{}-{}", writer, i);
        const std::string payload = fmt::format("{:.0f}", nanoseconds_now());
        NewEvent event;
        event.aggregate_type = "order";
        event.aggregate_id = key;
        event.type = "Timed";
        event.payload = payload;
        if (!postgres::publish(db.get(), event)) require(false, "publish failed");
        db.run("COMMIT");
      }
    });
  }
  writers.clear();
  std::this_thread::sleep_for(1s);
  relay.stop();
  std::sort(waits.begin(), waits.end());
  require(waits.size() == 5000, "events did not arrive");
  return {waits[waits.size() / 2], waits[waits.size() * 99 / 100]};
}

// Of relay and server together, as a share of one core, when nothing happens.
double idle_cpu_percent(const std::string& conninfo, const std::string& name) {
  RunningRelay relay(conninfo, name);
  relay.start();
  std::this_thread::sleep_for(4s);
  const double before = cpu_seconds() + process_cpu_seconds(relay.backend());
  const double start = seconds_now();
  std::this_thread::sleep_for(10s);
  const double used = cpu_seconds() + process_cpu_seconds(relay.backend()) - before;
  return 100 * used / (seconds_now() - start);
}

void bench_idle(const std::string& conninfo, Report& report) {
  progress("an idle relay");
  report.add({"idle relay, its own and the server's CPU",
              idle_cpu_percent(conninfo, "idle"),
              "% of a core",
              {},
              2});
}

void bench_latency(const std::string& conninfo, Report& report) {
  progress("commit to read at 500 transactions a second");
  int number = 0;
  report.measure(
      {{"commit to read by polling, p50", "ms", {}, 3}, {"commit to read by polling, p99", "ms"}},
      [&] {
        Raw(conninfo).run("TRUNCATE dovetail.outbox");
        return commit_to_read_ms(conninfo, fmt::format("latency{}", ++number));
      });
}

void bench_drain(const std::string& conninfo, Report& report) {
  progress(fmt::format("draining {} events into a null sink", kBacklog));
  const Raw db(conninfo);
  fill_outbox(db);
  int number = 0;
  report.measure({{"drain against SELECT FOR UPDATE SKIP LOCKED + UPDATE", "ratio", 4},
                  {"drain against a bare cursor that only reads", "ratio", 0.7},
                  {"drain", "events/s"},
                  {"drain, CPU of the relay", "us/event"},
                  {"drain, CPU of the server", "us/event"},
                  {"bare cursor", "events/s"},
                  {"bare cursor, CPU of the reader", "us/event"},
                  {"bare cursor, CPU of the server", "us/event"},
                  {"classic loop", "events/s"}},
                 [&] {
                   fill_classic_outbox(db);
                   const Drained bare = read_by_bare_cursor(conninfo);
                   const Drained ours =
                       drain_by_dovetail(conninfo, fmt::format("drain{}", ++number));
                   const Drained classic = drain_by_classic_loop(conninfo);
                   return std::vector<double>{ours.per_second / classic.per_second,
                                              ours.per_second / bare.per_second,
                                              ours.per_second,
                                              ours.reader_us,
                                              ours.server_us,
                                              bare.per_second,
                                              bare.reader_us,
                                              bare.server_us,
                                              classic.per_second};
                 });
}

void run(const std::string& conninfo, Report& report, const std::vector<std::string>& wanted) {
  run_parts(report, wanted,
            {{"idle", [&](Report& to) { bench_idle(conninfo, to); }},
             {"latency", [&](Report& to) { bench_latency(conninfo, to); }},
             {"drain", [&](Report& to) { bench_drain(conninfo, to); }}});
}

}  // namespace
}  // namespace dovetail::bench

int main(int count, char** arguments) {
  return dovetail::bench::on_postgres("postgres", {arguments + 1, arguments + count},
                                      dovetail::bench::run);
}

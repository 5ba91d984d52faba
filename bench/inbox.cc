// How fast an inbox in PostgreSQL applies events beside the loop that most services have: one
// transaction for each message, with four round trips. Both use one connection of one server, take
// their messages from memory, and change one of many accounts for each.
#include "core/inbox/inbox.h"

#include <fmt/format.h>
#include <libpq-fe.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/relay/relay.h"
#include "host/host.h"
#include "memory/reader.h"
#include "postgres/inbox/handlers.h"
#include "postgres/inbox/inbox_store.h"
#include "postgres/operate/maintenance.h"
#include "raw_postgres.h"
#include "report.h"

namespace dovetail::bench {
namespace {

using namespace std::chrono_literals;
using postgres::Invocation;
using postgres::TransactionHandler;

constexpr std::size_t kAccounts = 100'000;
constexpr std::size_t kNaiveEvents = 3'000;
constexpr std::size_t kEvents = 60'000;
constexpr std::size_t kOwnRoundTripEvents = 20'000;
constexpr std::size_t kDuplicates = 300'000;
constexpr const char* kEffect = "UPDATE account SET balance = balance + 1 WHERE id = $1";

// Events as a broker would deliver them, each about one of the accounts.
class Load {
 public:
  explicit Load(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::string account = std::to_string(1 + i * 7919 % kAccounts);
      Event event;
      event.id = new_event_id();
      event.position = static_cast<std::int64_t>(i + 1);
      event.topic = "accounts";
      event.aggregate_type = "account";
      event.aggregate_id = account;
      event.type = "Deposited";
      event.content_type = "application/json";
      event.payload = kPayload;
      event.created_at = system_clock().wall();
      batch_.append(event);
    }
  }
  std::span<const Event> events() const { return batch_.events(); }

 private:
  Batch batch_;
};

// Delivers the events of a load, all of them so many times.
class LoadSource final : public Source {
 public:
  LoadSource(const Load& load, std::size_t times) : load_(load), times_(times) {}
  std::size_t count() const { return load_.events().size() * times_; }

  Status open() override {
    next_ = 0;
    return {};
  }
  Status read(Batch& out, const Limits& limits, std::stop_token) override {
    const std::size_t end = std::min(count(), next_ + limits.events_max);
    while (next_ < end && out.bytes() < limits.bytes_max) {
      out.append(load_.events()[next_++ % load_.events().size()]);
    }
    // Waiting for more than there is means waiting for the end.
    if (out.empty()) std::this_thread::sleep_for(std::min<Duration>(limits.wait_max, 1ms));
    return {};
  }
  Status settle(const Batch&, std::span<const Settled>) override { return {}; }
  Status flush() override { return {}; }

 private:
  const Load& load_;
  std::size_t times_;
  std::size_t next_ = 0;
};

struct Speed {
  double per_second = 0;
  double client_us = 0;  // CPU for each event
  double server_us = 0;
};

class Meter {
 public:
  Speed end(std::size_t count, double server_seconds) const {
    const auto events = static_cast<double>(count);
    return {events / (seconds_now() - start_), 1e6 * (cpu_seconds() - cpu_before_) / events,
            1e6 * server_seconds / events};
  }

 private:
  double cpu_before_ = cpu_seconds();
  double start_ = seconds_now();
};

// BEGIN, the inbox row, the effect unless it was there, COMMIT.
Speed apply_naively(const std::string& conninfo, const Load& load) {
  const Raw db(conninfo);
  const double server_before = process_cpu_seconds(db.backend());
  const Meter meter;
  for (const Event& event : load.events()) {
    const std::string id = event.id.to_string();
    const std::string account(event.aggregate_id);
    PQclear(db.with_params("BEGIN", {}));
    PGresult* inserted = db.with_params(
        "INSERT INTO naive_inbox (consumer, event_id) VALUES ($1, $2) ON CONFLICT DO NOTHING",
        {"accounts", id.c_str()});
    const bool first = *PQcmdTuples(inserted) == '1';
    PQclear(inserted);
    if (first) PQclear(db.with_params(kEffect, {account.c_str()}));
    PQclear(db.with_params("COMMIT", {}));
  }
  return meter.end(load.events().size(), process_cpu_seconds(db.backend()) - server_before);
}

double cpu_seconds_of_other_backends(const Raw& db) {
  PGresult* rows = db.with_params(
      "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> "
      "pg_backend_pid() AND backend_type = 'client backend'",
      {});
  double seconds = 0;
  for (int row = 0; row < PQntuples(rows); ++row) {
    seconds += process_cpu_seconds(std::atoi(PQgetvalue(rows, row, 0)));
  }
  PQclear(rows);
  return seconds;
}

// A consumer with one connection and the sizes that it has unless told otherwise.
Speed apply_by_inbox(const std::string& conninfo, const Load& load, std::size_t times,
                     const TransactionHandler& handler) {
  const postgres::ConsumerOptions defaults;
  LoadSource source(load, times);
  postgres::PostgresInboxStore store({.conninfo = conninfo,
                                      .consumer = handler.name,
                                      .lane = 0,
                                      .version_guard = false,
                                      .handlers = {handler}});
  Inbox inbox(store, InboxOptions{});
  MemoryReader reader;
  MemoryParking parking(reader);
  NoLease lease;
  RelayMetrics metrics;
  Relay relay(RelayPorts{.source = source,
                         .sink = inbox,
                         .parking = parking,
                         .lease = lease,
                         .clock = system_clock(),
                         .metrics = metrics},
              RelayOptions{.batch_events_max = defaults.batch_events_max,
                           .batch_bytes_max = defaults.batch_bytes_max,
                           .window_events_max = defaults.window_events_max,
                           .window_bytes_max = defaults.window_bytes_max});
  const Meter meter;
  std::jthread thread([&](std::stop_token stop) {
    const Status ran = relay.run(stop);
    require(ran.has_value(), ran ? "" : ran.error().text);
  });
  while (metrics.settled < source.count() && metrics.parked == 0 && metrics.sink_errors == 0) {
    std::this_thread::sleep_for(1ms);
  }
  require(metrics.parked == 0 && metrics.failed == 0 && metrics.sink_errors == 0,
          "the inbox did not apply every event at the first try");
  const Speed speed = meter.end(source.count(), cpu_seconds_of_other_backends(Raw(conninfo)));
  thread.request_stop();
  thread.join();
  require(inbox.close().has_value(), "the inbox did not close");
  return speed;
}

// The handlers of the figures. Each has a name of its own, and so inbox rows of its own.
TransactionHandler queued() {
  return postgres::cpp_handler("queued", {}, [](Invocation& invocation, const Event& event) {
    return invocation.queue(kEffect, {event.aggregate_id});
  });
}

TransactionHandler own_round_trips() {
  return postgres::cpp_handler("own", {}, [](Invocation& invocation, const Event& event) -> Status {
    const Result<pg_conn*> db = invocation.connection();
    if (!db) return fail(db.error());
    const std::string account(event.aggregate_id);
    const char* const values[] = {account.c_str()};
    PGresult* result = PQexecParams(*db, kEffect, 1, nullptr, values, nullptr, nullptr, 0);
    const bool done = PQresultStatus(result) == PGRES_COMMAND_OK;
    PQclear(result);
    return done ? Status{} : fail(Errc::failed, PQerrorMessage(*db));
  });
}

TransactionHandler batched() {
  return postgres::cpp_batch_handler("batched", {}, [](Invocation& invocation, Events events) {
    std::string accounts = "{";
    for (const Event* event : events) {
      if (accounts.size() > 1) accounts += ',';
      accounts += event->aggregate_id;
    }
    accounts += '}';
    return invocation.queue(
        "UPDATE account SET balance = balance + change FROM (SELECT id AS changed, count(*) AS "
        "change FROM unnest($1::int[]) AS id GROUP BY id) AS changes WHERE account.id = changed",
        {accounts});
  });
}

TransactionHandler sql_function(const char* name, bool batch) {
  Result<TransactionHandler> made = postgres::sql_function(name, {}, name, batch);
  require(made.has_value(), made ? "" : made.error().text);
  return *std::move(made);
}

void make_tables(const Raw& db) {
  db.run(
      "CREATE TABLE account(id int PRIMARY KEY, balance bigint NOT NULL) WITH (fillfactor = 50);"
      "CREATE TABLE naive_inbox(consumer text, event_id uuid, processed_at timestamptz NOT NULL "
      "DEFAULT now(), PRIMARY KEY (consumer, event_id));"
      "CREATE FUNCTION apply_one(event dovetail.event) RETURNS void LANGUAGE plpgsql AS $$ BEGIN "
      "UPDATE account SET balance = balance + 1 WHERE id = event.aggregate_id::int; END $$;"
      "CREATE FUNCTION apply_many(events dovetail.event[]) RETURNS void LANGUAGE sql AS $$ "
      "UPDATE account SET balance = balance + change FROM (SELECT aggregate_id::int AS changed, "
      "count(*) AS change FROM unnest(events) GROUP BY 1) AS changes WHERE account.id = changed "
      "$$");
  db.run(fmt::format("INSERT INTO account SELECT i, 0 FROM generate_series(1, {}) i", kAccounts)
             .c_str());
}

// Every page of the accounts is in the log once since the last checkpoint, so that nobody pays for
// having come first.
void start_over(const Raw& db) {
  db.run("TRUNCATE naive_inbox, dovetail.inbox");
  db.run("CHECKPOINT");
  db.run("UPDATE account SET balance = 0");
  db.run("VACUUM ANALYZE account");
}

// The books: each event took effect once.
void check_books(const Raw& db, std::size_t expected) {
  PGresult* rows = db.with_params("SELECT sum(balance) FROM account", {});
  const std::string sum = PQgetvalue(rows, 0, 0);
  PQclear(rows);
  require(sum == std::to_string(expected),
          fmt::format("{} events took effect, not {}", sum, expected));
}

void add_speed(std::vector<Wanted>& figures, const std::string& name) {
  figures.push_back({name, "events/s"});
  figures.push_back({name + ", CPU of the client", "us/event"});
  figures.push_back({name + ", CPU of the server", "us/event"});
}

void add_speed(std::vector<double>& values, const Speed& speed) {
  values.insert(values.end(), {speed.per_second, speed.client_us, speed.server_us});
}

struct Contest {
  const char* name;
  TransactionHandler handler;
  std::size_t events;
  double target;
};

void bench_handlers(const std::string& conninfo, Report& report) {
  progress("events that are applied");
  const Raw db(conninfo);
  const std::vector<Contest> contests = {
      {"handler that queues its statements", queued(), kEvents, 8},
      {"SQL function", sql_function("apply_one", false), kEvents, 8},
      {"batch handler", batched(), kEvents, 12},
      {"SQL function for a batch", sql_function("apply_many", true), kEvents, 12},
      {"handler with round trips of its own", own_round_trips(), kOwnRoundTripEvents, 2},
  };
  std::vector<Wanted> figures;
  add_speed(figures, "naive loop");
  for (const Contest& contest : contests) {
    figures.push_back(
        {fmt::format("{}, to the naive loop", contest.name), "ratio", contest.target});
    add_speed(figures, contest.name);
  }
  report.measure(figures, [&] {
    start_over(db);
    const Speed naive = apply_naively(conninfo, Load(kNaiveEvents));
    std::size_t applied = kNaiveEvents;
    std::vector<double> values;
    add_speed(values, naive);
    for (const Contest& contest : contests) {
      const Speed ours = apply_by_inbox(conninfo, Load(contest.events), 1, contest.handler);
      check_books(db, applied += contest.events);
      values.push_back(ours.per_second / naive.per_second);
      add_speed(values, ours);
    }
    return values;
  });
}

void bench_duplicates(const std::string& conninfo, Report& report) {
  progress("events that were applied before");
  const Raw db(conninfo);
  std::vector<Wanted> figures{{"duplicates only, to the naive loop with the same", "ratio", 20},
                              {"duplicates only, to the naive loop that applies", "ratio"}};
  add_speed(figures, "duplicates");
  add_speed(figures, "naive loop, duplicates");
  report.measure(figures, [&] {
    start_over(db);
    const Load load(kNaiveEvents);
    const Speed applying = apply_naively(conninfo, load);
    const Speed naive = apply_naively(conninfo, load);
    const Load ours_load(kEvents);
    apply_by_inbox(conninfo, ours_load, 1, queued());
    const Speed ours = apply_by_inbox(conninfo, ours_load, kDuplicates / kEvents, queued());
    check_books(db, kNaiveEvents + kEvents);
    std::vector<double> values{ours.per_second / naive.per_second,
                               ours.per_second / applying.per_second};
    add_speed(values, ours);
    add_speed(values, naive);
    return values;
  });
}

void run(const std::string& conninfo, Report& report, const std::vector<std::string>& wanted) {
  make_tables(Raw(conninfo));
  // Partitions for the coming days, as a running system has them.
  require(postgres::maintain(conninfo, {}).has_value(), "partitions could not be made");
  run_parts(report, wanted,
            {{"handlers", [&](Report& to) { bench_handlers(conninfo, to); }},
             {"duplicates", [&](Report& to) { bench_duplicates(conninfo, to); }}});
}

}  // namespace
}  // namespace dovetail::bench

int main(int count, char** arguments) {
  return dovetail::bench::on_postgres("inbox", {arguments + 1, arguments + count},
                                      dovetail::bench::run);
}

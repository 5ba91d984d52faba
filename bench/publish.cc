// What an event adds to a transaction of PostgreSQL: CPU of the server, and transactions that are
// lost. The same event goes into the outbox in every way there is, into a copy of the outbox
// without partitions, and into the table of Debezium's outbox router with the INSERT that its
// manual shows.
#include <fmt/format.h>
#include <libpq-fe.h>

#include <algorithm>
#include <deque>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "dovetail/postgres.h"
#include "postgres/operate/maintenance.h"
#include "raw_postgres.h"
#include "report.h"

namespace dovetail::bench {
namespace {

constexpr int kWriters = 8;
// Turns of each way in a round, and transactions of a writer in a turn. In a turn the server
// repeats the same statements, as it does for a service.
constexpr int kTurns = 30;
constexpr int kTransactions = 60;
constexpr int kTurnsAlone = 60;
constexpr int kTransactionsAlone = 80;

void prepare(const Raw& db);

postgres::Publisher open_publisher(const Raw& db) {
  Result<postgres::Publisher> publisher = postgres::Publisher::open(db.get());
  require(publisher.has_value(), publisher ? "" : publisher.error().text);
  return std::move(*publisher);
}

// A connection with everything prepared.
struct Writer {
  explicit Writer(const std::string& conninfo) : db(conninfo), publisher(open_publisher(db)) {
    prepare(db);
  }
  Raw db;
  postgres::Publisher publisher;
};
using Writers = std::deque<Writer>;

// The statements of a transaction; `key` is the aggregate's id.
using Write = std::function<void(Writer& writer, const char* key)>;

struct Way {
  std::string name;
  Write write;
  // To Debezium's INSERT: the CPU that the event adds, and the transactions a second.
  std::optional<double> cpu_at_most{};
  std::optional<double> rate_at_least{};
};

// What one way did. CPU is of the server, for a transaction. One writer that does not wait for the
// disk shows what the server executes; with many, they also meet at the same pages and wake each
// other.
struct Cost {
  double cpu_us = 0;
  double cpu_us_many = 0;
  double per_second = 0;  // of kWriters; each waits for the disk
};

void prepare(const Raw& db) {
  const std::string values =
      " (aggregate_type, aggregate_id, type, payload) VALUES ('order', $1, 'OrderPlaced', "
      "convert_to($2, 'UTF8'))";
  db.prepare("begin", "BEGIN");
  db.prepare("commit", "COMMIT");
  db.prepare("business", "INSERT INTO business VALUES (gen_random_uuid(), 'x')");
  db.prepare("debezium",
             "INSERT INTO debezium_outbox (id, aggregatetype, aggregateid, type, payload) VALUES "
             "(gen_random_uuid(), 'order', $1, 'OrderPlaced', $2)");
  db.prepare("publish", "SELECT dovetail.publish('order', $1, 'OrderPlaced', $2::text)");
  db.prepare("publish_jsonb", "SELECT dovetail.publish('order', $1, 'OrderPlaced', $2::jsonb)");
  db.prepare("insert", ("INSERT INTO dovetail.outbox" + values).c_str());
  db.prepare("insert_twin", ("INSERT INTO unpartitioned" + values).c_str());
  db.prepare("cte",
             "WITH placed AS (INSERT INTO business VALUES (gen_random_uuid(), 'x') RETURNING id) "
             "INSERT INTO dovetail.outbox (aggregate_type, aggregate_id, type, payload) "
             "SELECT 'order', $1, 'OrderPlaced', convert_to($2, 'UTF8') FROM placed");
}

void execute(Writer& writer, const char* name, std::vector<const char*> values = {}) {
  PQclear(writer.db.prepared(name, std::move(values)));
}

// BEGIN, a row of the application, this statement, COMMIT: each waits for its answer.
Write with_statement(const char* name) {
  return [name](Writer& writer, const char* key) {
    execute(writer, "begin");
    execute(writer, "business");
    execute(writer, name, {key, kPayload.c_str()});
    execute(writer, "commit");
  };
}

void write_nothing(Writer& writer, const char*) {
  execute(writer, "begin");
  execute(writer, "business");
  execute(writer, "commit");
}

void write_cte(Writer& writer, const char* key) {
  execute(writer, "begin");
  execute(writer, "cte", {key, kPayload.c_str()});
  execute(writer, "commit");
}

void write_cte_alone(Writer& writer, const char* key) {
  execute(writer, "cte", {key, kPayload.c_str()});
}

void write_and_commit(Writer& writer, const char* key) {
  execute(writer, "begin");
  execute(writer, "business");
  NewEvent event;
  event.aggregate_type = "order";
  event.aggregate_id = key;
  event.type = "OrderPlaced";
  event.payload = kPayload;
  require(writer.publisher.publish_and_commit(event).has_value(), "publish_and_commit failed");
}

// The row of the application and the event with one wait, as a pipeline: between two syncs it is a
// transaction.
void write_pipeline(Writer& writer, const char* key) {
  PGconn* const db = writer.db.get();
  const char* const values[] = {key, kPayload.c_str()};
  const bool is_sent = PQenterPipelineMode(db) == 1 &&
                       PQsendQueryPrepared(db, "business", 0, nullptr, nullptr, nullptr, 0) == 1 &&
                       PQsendQueryPrepared(db, "publish", 2, values, nullptr, nullptr, 0) == 1 &&
                       PQpipelineSync(db) == 1;
  require(is_sent, PQerrorMessage(db));
  for (int left = 3; left > 0;) {  // two statements and the sync
    PGresult* const result = PQgetResult(db);
    if (result == nullptr) continue;  // the end of one statement
    const ExecStatusType status = PQresultStatus(result);
    require(
        status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK || status == PGRES_PIPELINE_SYNC,
        PQerrorMessage(db));
    PQclear(result);
    --left;
  }
  require(PQexitPipelineMode(db) == 1, PQerrorMessage(db));
}

// Places in the list of ways.
constexpr std::size_t kNoEvent = 0;
constexpr std::size_t kDebezium = 1;
constexpr std::size_t kInsert = 4;
constexpr std::size_t kTwin = 5;
constexpr std::size_t kAndCommit = 8;

// The first two are what the others are compared with.
std::vector<Way> ways() {
  return {{"no event", write_nothing},
          {"Debezium's INSERT", with_statement("debezium")},
          {"SELECT dovetail.publish(), text", with_statement("publish"), 1.8, 0.92},
          {"SELECT dovetail.publish(), jsonb", with_statement("publish_jsonb")},
          {"INSERT INTO dovetail.outbox", with_statement("insert"), 1.4, {}},
          {"INSERT without partitions", with_statement("insert_twin")},
          {"INSERT in the statement of the row (CTE)", write_cte, {}, 1.0},
          {"the same, without BEGIN and COMMIT", write_cte_alone},
          {"Publisher::publish_and_commit()", write_and_commit, {}, 1.0},
          {"publish() in a pipeline", write_pipeline}};
}

// CPU of one backend. /proc/PID/stat counts in steps of 10 ms.
double backend_cpu_seconds(int backend) {
  std::ifstream file(fmt::format("/proc/{}/schedstat", backend));
  double nanoseconds = 0;
  file >> nanoseconds;
  return nanoseconds > 0 ? nanoseconds * 1e-9 : process_cpu_seconds(backend);
}

double server_cpu_seconds(const Writers& writers) {
  double sum = 0;
  for (const Writer& writer : writers) sum += backend_cpu_seconds(writer.db.backend());
  return sum;
}

// CPU of a transaction in microseconds, and transactions a second.
std::pair<double, double> run_writers(Writers& writers, const Write& write, int transactions) {
  const double cpu_before = server_cpu_seconds(writers);
  const double start = seconds_now();
  std::vector<std::jthread> threads;
  for (Writer& writer : writers) {
    threads.emplace_back([&writer, &write, transactions] {
      for (int i = 0; i < transactions; ++i) write(writer, fmt::format("k{}", i).c_str());
    });
  }
  threads.clear();  // waits for them
  const double count = static_cast<double>(writers.size()) * transactions;
  return {1e6 * (server_cpu_seconds(writers) - cpu_before) / count,
          count / (seconds_now() - start)};
}

struct Setting {
  Writers alone;
  Writers many;
};

// Whatever else runs on the machine makes a turn dearer and none cheaper, so the best tenth counts.
double best(std::vector<double> turns, bool is_rate) {
  std::sort(turns.begin(), turns.end());
  if (is_rate) std::reverse(turns.begin(), turns.end());
  return turns[turns.size() / 10];
}

// What each way costs these writers: CPU and rate. Each turn begins with another way, so that what
// else the machine does meets all.
std::vector<std::pair<double, double>> take_turns(Writers& writers, const std::vector<Way>& all,
                                                  std::size_t turns, int transactions) {
  std::vector<std::vector<double>> cpu(all.size());
  std::vector<std::vector<double>> rates(all.size());
  for (const Way& way : all) run_writers(writers, way.write, transactions);  // to warm up
  for (std::size_t turn = 0; turn < turns; ++turn) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::size_t which = (turn + i) % all.size();
      const auto [used, rate] = run_writers(writers, all[which].write, transactions);
      cpu[which].push_back(used);
      rates[which].push_back(rate);
    }
  }
  std::vector<std::pair<double, double>> costs;
  for (std::size_t i = 0; i < all.size(); ++i)
    costs.emplace_back(best(cpu[i], false), best(rates[i], true));
  return costs;
}

std::vector<Cost> measure(Setting& setting, const std::vector<Way>& all) {
  setting.alone.front().db.run(
      "TRUNCATE business, debezium_outbox, unpartitioned, dovetail.outbox; CHECKPOINT");
  const auto alone = take_turns(setting.alone, all, kTurnsAlone, kTransactionsAlone);
  const auto many = take_turns(setting.many, all, kTurns, kTransactions);
  std::vector<Cost> costs;
  for (std::size_t i = 0; i < all.size(); ++i)
    costs.push_back({alone[i].first, many[i].first, many[i].second});
  return costs;
}

std::vector<Wanted> figures_of(const std::vector<Way>& all) {
  std::vector<Wanted> figures{{"transactions without an event", "per second"},
                              {"server CPU of a transaction without an event", "us"},
                              {"server CPU that Debezium's INSERT adds", "us"},
                              {"transactions with Debezium's INSERT, to those without", "ratio"}};
  for (std::size_t i = kDebezium + 1; i < all.size(); ++i) {
    figures.push_back({all[i].name + ": CPU to Debezium's", "ratio", {}, all[i].cpu_at_most});
    figures.push_back({all[i].name + fmt::format(": CPU, {} writers", kWriters), "ratio"});
    figures.push_back({all[i].name + ": transactions", "ratio", all[i].rate_at_least, {}});
  }
  figures.push_back({all[kAndCommit].name + ": transactions to those without", "ratio", 0.8, {}});
  figures.push_back({"CPU that partitions add to an INSERT", "us"});
  return figures;
}

std::vector<double> run_round(Setting& setting, const std::vector<Way>& all) {
  const std::vector<Cost> costs = measure(setting, all);
  const auto added = [&](std::size_t way, double Cost::* cpu) {
    return costs[way].*cpu - costs[kNoEvent].*cpu;
  };
  const double rate = costs[kDebezium].per_second;
  std::vector<double> values{costs[kNoEvent].per_second, costs[kNoEvent].cpu_us,
                             added(kDebezium, &Cost::cpu_us), rate / costs[kNoEvent].per_second};
  for (std::size_t i = kDebezium + 1; i < all.size(); ++i) {
    for (const auto cpu : {&Cost::cpu_us, &Cost::cpu_us_many})
      values.push_back(added(i, cpu) / added(kDebezium, cpu));
    values.push_back(costs[i].per_second / rate);
  }
  values.push_back(costs[kAndCommit].per_second / costs[kNoEvent].per_second);
  values.push_back(costs[kInsert].cpu_us - costs[kTwin].cpu_us);
  return values;
}

// As a service on another machine: by TCP, which costs the server more than a socket of Unix.
std::string by_tcp(const std::string& conninfo) { return conninfo + " host=127.0.0.1"; }

void run(const std::string& conninfo, Report& report, const std::vector<std::string>&) {
  const Raw setup(conninfo);
  setup.run(
      "CREATE TABLE business (id uuid PRIMARY KEY, body text);"
      "CREATE TABLE debezium_outbox (id uuid PRIMARY KEY, aggregatetype varchar(255) NOT NULL, "
      "aggregateid varchar(255) NOT NULL, type varchar(255) NOT NULL, payload jsonb);"
      "CREATE TABLE unpartitioned (LIKE dovetail.outbox INCLUDING DEFAULTS INCLUDING INDEXES)");
  const auto maintained = postgres::maintain(conninfo, {});
  require(maintained.has_value(), maintained ? "" : maintained.error().text);
  Setting setting;
  setting.alone.emplace_back(by_tcp(conninfo) + " options='-c synchronous_commit=off'");
  for (int i = 0; i < kWriters; ++i) setting.many.emplace_back(by_tcp(conninfo));
  const std::vector<Way> all = ways();
  progress(fmt::format("in each round, {} transactions of each way by one writer, {} by {}",
                       kTurnsAlone * kTransactionsAlone, kTurns * kTransactions * kWriters,
                       kWriters));
  report.measure(figures_of(all), [&] { return run_round(setting, all); });
}

}  // namespace
}  // namespace dovetail::bench

int main(int count, char** arguments) {
  return dovetail::bench::on_postgres("publish", {arguments + 1, arguments + count},
                                      dovetail::bench::run);
}

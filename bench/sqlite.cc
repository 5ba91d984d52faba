// What the outbox costs a writer, how fast relay and inbox are beside a hand-written loop that does
// the same work on raw sqlite3, and how much memory a large backlog takes.
#include "dovetail/sqlite.h"

#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <new>
#include <stop_token>
#include <string>
#include <thread>

#include "report.h"

namespace {

std::atomic<std::uint64_t> allocations{0};

}  // namespace

void* operator new(std::size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace dovetail::bench {
namespace {

constexpr int kAccounts = 1000;
constexpr int kDrainEvents = 200'000;
constexpr int kBacklogEvents = 1'000'000;
constexpr int kWriterTransactions = 4'000;

void require(bool ok, const std::string& what) {
  if (ok) return;
  fmt::print(stderr, "bench: {}\n", what);
  std::exit(2);
}

class Connection {
 public:
  explicit Connection(const std::string& path) {
    require(sqlite3_open(path.c_str(), &db_) == SQLITE_OK, "cannot open " + path);
    require(sqlite::prepare_connection(db_).has_value(), "cannot prepare " + path);
  }
  ~Connection() { sqlite3_close_v2(db_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  sqlite3* get() const { return db_; }
  void run(const char* sql) const {
    require(sqlite3_exec(db_, sql, nullptr, nullptr, nullptr) == SQLITE_OK, sqlite3_errmsg(db_));
  }

 private:
  sqlite3* db_ = nullptr;
};

class Statement {
 public:
  Statement(sqlite3* db, const char* sql) {
    require(sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement_, nullptr) ==
                SQLITE_OK,
            sqlite3_errmsg(db));
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  sqlite3_stmt* get() const { return statement_; }
  void step_done() const {
    if (sqlite3_step(statement_) != SQLITE_DONE) require(false, "a statement failed");
    sqlite3_reset(statement_);
  }

 private:
  sqlite3_stmt* statement_ = nullptr;
};

void fill_outbox(const std::string& path, int count) {
  const Connection db(path);
  require(sqlite::create_schema(db.get()).has_value(), "cannot make the schema");
  auto publisher = sqlite::Publisher::open(db.get());
  require(publisher.has_value(), "cannot publish");
  for (int i = 0; i < count; ++i) {
    if (i % 1000 == 0) db.run(i == 0 ? "BEGIN IMMEDIATE" : "COMMIT; BEGIN IMMEDIATE");
    const std::string key = std::to_string(i % kAccounts);
    NewEvent event;
    event.aggregate_type = "account";
    event.aggregate_id = key;
    event.type = "Moved";
    event.payload = kPayload;
    require(publisher->publish(event).has_value(), "publish failed");
  }
  db.run("COMMIT; PRAGMA wal_checkpoint(TRUNCATE)");
}

void make_accounts(const Connection& db) {
  db.run(
      "CREATE TABLE account(id INTEGER PRIMARY KEY, moves INTEGER NOT NULL, bytes INTEGER NOT "
      "NULL);"
      "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 999)"
      "INSERT INTO account SELECT i, 0, 0 FROM n");
}

constexpr const char* kEffect =
    "UPDATE account SET moves = moves + 1, bytes = bytes + ?2 WHERE id = ?1";

void bind_effect(sqlite3_stmt* effect, std::string_view key, std::string_view payload) {
  sqlite3_bind_int(effect, 1, std::atoi(std::string(key).c_str()));
  sqlite3_bind_int64(effect, 2, static_cast<sqlite3_int64>(payload.size()));
}

int count_moves(const std::string& path) {
  const Connection db(path);
  const Statement sum(db.get(), "SELECT sum(moves) FROM account");
  require(sqlite3_step(sum.get()) == SQLITE_ROW, "no accounts");
  return sqlite3_column_int(sum.get(), 0);
}

// The loop that a careful programmer would write for this one job: read a thousand by position,
// insert the inbox row, apply, commit durably, remember the position.
double drain_by_hand(const std::string& outbox, const std::string& inbox) {
  {
    const Connection db(inbox);
    make_accounts(db);
    db.run(
        "CREATE TABLE inbox(consumer INTEGER, id BLOB, at INTEGER, PRIMARY KEY(consumer, id)) "
        "WITHOUT ROWID");
    const Connection from(outbox);
    from.run(
        "CREATE TABLE IF NOT EXISTS hand(seq INTEGER); DELETE FROM hand; INSERT INTO hand "
        "VALUES(0)");
  }
  const double start = seconds_now();
  const Connection from(outbox);
  from.run("PRAGMA synchronous = NORMAL");
  const Connection to(inbox);
  const Statement read(
      from.get(),
      "SELECT seq, id, aggregate_type, aggregate_id, type, topic, content_type, headers, payload, "
      "created_at FROM dovetail_outbox WHERE seq > ? ORDER BY seq LIMIT 1000");
  const Statement insert(to.get(), "INSERT OR IGNORE INTO inbox VALUES(1, ?, ?)");
  const Statement effect(to.get(), kEffect);
  const Statement progress_row(from.get(), "UPDATE hand SET seq = ?");
  sqlite3_int64 last = 0;
  int applied = 0;
  while (true) {
    int rows = 0;
    to.run("BEGIN IMMEDIATE");
    sqlite3_bind_int64(read.get(), 1, last);
    while (sqlite3_step(read.get()) == SQLITE_ROW) {
      ++rows;
      last = sqlite3_column_int64(read.get(), 0);
      sqlite3_bind_blob(insert.get(), 1, sqlite3_column_blob(read.get(), 1), 16, SQLITE_STATIC);
      sqlite3_bind_int64(insert.get(), 2, 1);
      insert.step_done();
      if (sqlite3_changes(to.get()) == 0) continue;
      const auto text = [&](int column) {
        return std::string_view(static_cast<const char*>(sqlite3_column_blob(read.get(), column)),
                                static_cast<std::size_t>(sqlite3_column_bytes(read.get(), column)));
      };
      bind_effect(effect.get(), text(3), text(8));
      effect.step_done();
      ++applied;
    }
    sqlite3_reset(read.get());
    to.run("COMMIT");
    if (rows == 0) break;
    sqlite3_bind_int64(progress_row.get(), 1, last);
    progress_row.step_done();
  }
  const double seconds = seconds_now() - start;
  require(applied == kDrainEvents && count_moves(inbox) == kDrainEvents,
          "the hand-written loop lost events");
  return static_cast<double>(applied) / seconds;
}

struct Drained {
  double events_per_second;
  double cpu_us_per_event;
  double allocations_per_event;
};

Drained drain_by_dovetail(const std::string& outbox, const std::string& inbox, int events) {
  {
    const Connection db(inbox);
    require(sqlite::create_schema(db.get()).has_value(), "cannot make the schema");
    make_accounts(db);
  }
  std::unique_ptr<Statement> effect;
  std::uint64_t applied = 0;
  std::stop_source stop;
  sqlite::ConsumerOptions options;
  options.database = inbox;
  options.from = outbox;
  options.name = "bench-" + std::filesystem::path(inbox).stem().string();
  auto consumer = sqlite::Consumer::open(options, [&](sqlite3* db, const Event& event) -> Status {
    if (!effect) effect = std::make_unique<Statement>(db, kEffect);
    bind_effect(effect->get(), event.aggregate_id, event.payload);
    effect->step_done();
    if (++applied == static_cast<std::uint64_t>(events)) stop.request_stop();
    return {};
  });
  require(consumer.has_value(), consumer ? "" : consumer.error().text);
  const std::uint64_t allocations_before = allocations;
  const double cpu_before = cpu_seconds();
  const double start = seconds_now();
  const Status ran = (*consumer)->run(stop.get_token());
  const double seconds = seconds_now() - start;
  require(ran.has_value(), ran ? "" : ran.error().text);
  const double count = events;
  const Drained drained{count / seconds, (cpu_seconds() - cpu_before) * 1e6 / count,
                        static_cast<double>(allocations - allocations_before) / count};
  effect.reset();
  consumer->reset();
  require(count_moves(inbox) == events, "dovetail lost or doubled events");
  return drained;
}

double write_transactions(const std::string& path, bool with_event) {
  const Connection db(path);
  require(sqlite::create_schema(db.get()).has_value(), "cannot make the schema");
  db.run("CREATE TABLE IF NOT EXISTS orders(id INTEGER PRIMARY KEY, customer TEXT, body TEXT)");
  const Statement begin(db.get(), "BEGIN IMMEDIATE");
  const Statement insert(db.get(), "INSERT INTO orders(customer, body) VALUES('c-778812', ?)");
  const Statement commit(db.get(), "COMMIT");
  auto publisher = sqlite::Publisher::open(db.get());
  require(publisher.has_value(), "cannot publish");
  const double start = seconds_now();
  for (int i = 0; i < kWriterTransactions; ++i) {
    begin.step_done();
    sqlite3_bind_text(insert.get(), 1, kPayload.data(), static_cast<int>(kPayload.size()),
                      SQLITE_STATIC);
    insert.step_done();
    if (with_event) {
      const std::string key = std::to_string(i);
      NewEvent event;
      event.aggregate_type = "order";
      event.aggregate_id = key;
      event.type = "OrderPlaced";
      event.payload = kPayload;
      require(publisher->publish(event).has_value(), "publish failed");
    }
    commit.step_done();
  }
  return kWriterTransactions / (seconds_now() - start);
}

// In a process of its own, so that its peak is its own.
double backlog_peak_mib(const std::string& outbox, const std::string& inbox) {
  const pid_t child = fork();
  if (child == 0) {
    drain_by_dovetail(outbox, inbox, kBacklogEvents);
    std::_Exit(0);
  }
  int status = 0;
  rusage usage{};
  require(
      wait4(child, &status, 0, &usage) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0,
      "draining the large backlog failed");
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

int run(const std::filesystem::path& folder) {
  Report report("sqlite");
  const auto file = [&](const std::string& name) { return (folder / name).string(); };
  int number = 0;

  progress(fmt::format("backlog of {} events: peak memory", kBacklogEvents));
  fill_outbox(file("backlog.db"), kBacklogEvents);
  const double peak = backlog_peak_mib(file("backlog.db"), file("backlog-inbox.db"));

  progress(fmt::format("relay + inbox and the hand-written loop, {} events each", kDrainEvents));
  fill_outbox(file("outbox.db"), kDrainEvents);
  const auto drained = least_disturbed(7, 5, [&] {
    ++number;
    const double hand = drain_by_hand(file("outbox.db"), file(fmt::format("hand{}.db", number)));
    const Drained ours =
        drain_by_dovetail(file("outbox.db"), file(fmt::format("ours{}.db", number)), kDrainEvents);
    return std::vector<double>{ours.events_per_second / hand, ours.events_per_second, hand,
                               ours.cpu_us_per_event, ours.allocations_per_event};
  });

  progress(fmt::format("{} durable transactions with and without an event", kWriterTransactions));
  const auto written = least_disturbed(7, 5, [&] {
    ++number;
    const double without = write_transactions(file(fmt::format("plain{}.db", number)), false);
    const double with = write_transactions(file(fmt::format("event{}.db", number)), true);
    return std::vector<double>{with / without, with, without};
  });

  report.add({"relay + inbox against the hand-written loop", drained[0], "ratio", 0.7, {}});
  report.add({"relay + inbox", drained[1], "events/s", {}, {}});
  report.add({"hand-written loop", drained[2], "events/s", {}, {}});
  report.add({"relay + inbox, CPU", drained[3], "us/event", {}, {}});
  report.add({"relay + inbox, allocations", drained[4], "per event", {}, {}});
  report.add({"transactions with an event against without", written[0], "ratio", {}, {}});
  report.add({"transactions with an event", written[1], "per second", {}, {}});
  report.add({"transactions without an event", written[2], "per second", {}, {}});
  report.add({"peak memory, backlog of 1,000,000 events", peak, "MiB", {}, 64});
  return report.finish();
}

}  // namespace
}  // namespace dovetail::bench

int main() {
  std::string folder = (std::filesystem::temp_directory_path() / "dovetail-bench-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return 2;
  const int code = dovetail::bench::run(folder);
  std::filesystem::remove_all(folder);
  return code;
}

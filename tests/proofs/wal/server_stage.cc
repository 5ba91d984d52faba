#include "proofs/wal/server_stage.h"

#include <signal.h>

#include <fstream>

#include "postgres/schema/schema.h"

namespace dovetail::live {

using namespace std::chrono_literals;
using postgres::Connection;
using postgres::LanesOptions;
using postgres::must;
using postgres::number;
using postgres::Params;
using postgres::ReadMode;
using postgres::Rows;
using postgres::text;

namespace {

bool is_gone(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(file, line)) return true;
  return line.substr(line.rfind(')') + 2, 1) == "Z";
}

// Delivers an event when it confirms it: if a relay counts it as confirmed earlier, it is
// lost.
class BrokerSink final : public Sink {
 public:
  BrokerSink(const std::atomic<Broker>& broker, Books& books) : broker_(broker), books_(books) {}

  Status open() override {
    submitted_.clear();
    if (broker_ == Broker::away) return fail(Errc::unavailable, "nobody listens; check the broker");
    return {};
  }
  Status submit(Events events) override {
    submitted_.emplace_back(events.begin(), events.end());
    return {};
  }
  Result<bool> collect(std::span<Outcome> outcomes, Duration timeout) override {
    if (broker_ == Broker::away)
      return fail(Errc::unavailable, "the line is cut; check the broker");
    if (broker_ == Broker::stuck || submitted_.empty()) {
      if (broker_ == Broker::stuck) std::this_thread::sleep_for(std::min<Duration>(timeout, 5ms));
      return false;
    }
    for (const Event* event : submitted_.front()) books_.add(*event);
    submitted_.pop_front();
    for (Outcome& outcome : outcomes) outcome = Outcome{Fate::confirmed};
    return true;
  }
  bool keeps_order_on_failure() const override { return true; }

 private:
  const std::atomic<Broker>& broker_;
  Books& books_;
  std::deque<std::vector<const Event*>> submitted_;
};

}  // namespace

OwnServer::OwnServer(const std::string& name)
    : folder_(::testing::TempDir() + "dovetail_" + name + "_" + std::to_string(getpid())),
      primary_(std::make_unique<servers::Started>("postgres", folder_)) {}

OwnServer::~OwnServer() {
  standby_.reset();
  primary_.reset();
  std::filesystem::remove_all(folder_);
}

Connection OwnServer::connect(const std::string& database) const {
  Result<Connection> opened = Connection::open(servers::with_database(conninfo(), database));
  EXPECT_TRUE(opened) << text_of(opened);
  return opened ? std::move(*opened) : Connection();
}

void OwnServer::set(const std::string& setting, const std::string& value) const {
  Connection connection = connect();
  must(connection, "ALTER SYSTEM SET " + setting + " = '" + value + "'");
  must(connection, "SELECT pg_reload_conf()");
}

void OwnServer::reset(const std::string& setting) const {
  Connection connection = connect();
  must(connection, "ALTER SYSTEM RESET " + setting);
  must(connection, "SELECT pg_reload_conf()");
}

double OwnServer::stop_fast(double wait_max_s) {
  const int pid = primary_->pid();
  const auto begin = std::chrono::steady_clock::now();
  const auto taken = [&] { return Seconds(std::chrono::steady_clock::now() - begin).count(); };
  ::kill(pid, SIGINT);
  while (!is_gone(pid) && taken() < wait_max_s) std::this_thread::sleep_for(5ms);
  return is_gone(pid) ? taken() : 2 * wait_max_s;
}

void OwnServer::start_standby() {
  standby_ = std::make_unique<servers::Started>("standby", folder_);
  ASSERT_TRUE(standby_->server().missing.empty()) << standby_->server().missing;
}

Connection OwnServer::connect_to_standby() const {
  Result<Connection> opened = Connection::open(standby_->server().conninfo);
  EXPECT_TRUE(opened) << text_of(opened);
  return opened ? std::move(*opened) : Connection();
}

void OwnServer::promote() {
  ::kill(primary_->pid(), SIGQUIT);  // at once, without notice to the standby
  Connection standby = connect_to_standby();
  // Without waiting: WAL that is still to be replayed may conflict with the statement's snapshot.
  must(standby, "SELECT pg_promote(false)");
  EXPECT_TRUE(eventually([&] { return number(standby, "SELECT pg_is_in_recovery()::int") == 0; }));
}

std::string OwnServer::either(const std::string& database) const {
  const servers::Server& first = primary_->server();
  const servers::Server& second = standby_->server();
  return "host=" + first.field("host") + "," + second.field("host") +
         " port=" + first.field("port") + "," + second.field("port") +
         " user=postgres dbname=" + database + " target_session_attrs=read-write";
}

void Books::add(const Event& event) {
  const std::lock_guard lock(mutex_);
  if (seen_[event.id.to_string()]++ > 0) {
    ++repeated_;
    return;
  }
  first_.push_back({event.id, std::string(event.aggregate_id), event.aggregate_version});
}

std::uint64_t Books::count() const {
  const std::lock_guard lock(mutex_);
  return first_.size();
}

std::uint64_t Books::repeated() const {
  const std::lock_guard lock(mutex_);
  return repeated_;
}

Books::Balance Books::compare(Connection& database) const {
  const Result<Rows> rows = database.query("SELECT id FROM dovetail.outbox");
  EXPECT_TRUE(rows) << text_of(rows);
  Balance balance;
  if (!rows) return balance;
  const std::lock_guard lock(mutex_);
  balance.committed = rows->size();
  balance.repeated = repeated_;
  std::unordered_map<std::string, bool> there;
  for (std::size_t row = 0; row < rows->size(); ++row) {
    const std::string id = rows->uuid(row, 0).to_string();
    there[id] = true;
    if (!seen_.contains(id)) ++balance.lost;
  }
  std::unordered_map<std::string, std::int64_t> last;
  for (const One& one : first_) {
    if (!there.contains(one.id.to_string())) {
      ++balance.phantom;
      continue;
    }
    if (one.version != last[one.key] + 1) ++balance.inverted;
    last[one.key] = one.version;
  }
  return balance;
}

std::vector<ReadMode> modes(ReadMode in_short) {
  if (is_long()) return {ReadMode::automatic, ReadMode::wal};
  return {in_short};
}

LanesOptions how(ReadMode mode) {
  LanesOptions options;
  options.reading.mode = mode;
  return options;
}

std::string said(const std::string& what, ReadMode mode) {
  return what + (mode == ReadMode::wal ? ", mode wal" : ", mode auto");
}

WalStage::WalStage(OwnServer& given) : server(given) {
  static std::atomic<int> count{0};
  database = "stage_" + std::to_string(++count);
  conninfo = servers::with_database(server.conninfo(), database);
  Connection admin = server.connect();
  must(admin, "CREATE DATABASE " + database);
  sql = server.connect(database);
  const Status made = postgres::create_schema(sql);
  EXPECT_TRUE(made) << text_of(made);
  must(sql, "CREATE TABLE account (key bigint PRIMARY KEY, version bigint NOT NULL)");
  must(sql, "INSERT INTO account SELECT k, 0 FROM generate_series(0, " +
                std::to_string(kWriters * kKeysOfOne - 1) + ") AS k");
}

WalStage::~WalStage() {
  broker = Broker::up;
  stop_writers();
  if (::testing::Test::HasFailure()) std::printf("%s", log().c_str());
  stop_relay();
  leave();
}

// Leaves nothing that keeps WAL or delays the server's next start.
void WalStage::leave() {
  sql.close();
  Result<Connection> admin = Connection::open(server.conninfo());
  if (!admin) return;  // the test broke it for good
  (void)eventually([&] {
    (void)admin->query(
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = $1 "
        "AND NOT active",
        Params().text(database));
    return static_cast<bool>(admin->execute("DROP DATABASE " + database + " WITH (FORCE)"));
  });
}

void WalStage::start_writers(std::int64_t rows_max, std::chrono::milliseconds pause) {
  for (std::uint64_t i = 0; i < kWriters; ++i)
    writers_.emplace_back(
        [this, i, rows_max, pause](std::stop_token stop) { write(i, rows_max, pause, stop); });
}

// Each has its own keys, so none waits for another.
void WalStage::write(std::uint64_t place, std::int64_t rows_max, std::chrono::milliseconds pause,
                     std::stop_token stop) {
  Random random(place + 1);
  Connection connection;
  while (!stop.stop_requested()) {
    if (!connection) {
      Result<Connection> opened = Connection::open(conninfo);
      if (opened) connection = std::move(*opened);
    }
    // For one key: as many events as its version rises by.
    const auto rows =
        random.below(4) == 0
            ? 1 + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(rows_max)))
            : 1;
    const auto key = static_cast<std::int64_t>(place) * kKeysOfOne +
                     static_cast<std::int64_t>(random.below(kKeysOfOne));
    const Result<Rows> done =
        connection
            ? connection.query(
                  "WITH changed AS (UPDATE account SET version = version + $2 WHERE key = $1 "
                  "RETURNING key, version) SELECT dovetail.publish('account', key::text, "
                  "'changed', '{}', aggregate_version => v) FROM changed, "
                  "generate_series(version - $2 + 1, version) AS v",
                  Params().int8(key).int8(rows))
            : Result<Rows>(fail(Errc::unavailable, "no server takes writes"));
    if (done) ++committed_;
    std::this_thread::sleep_for(done ? pause : 20ms);
  }
}

void WalStage::let_write(std::uint64_t transactions) {
  const std::uint64_t wanted = committed_ + transactions;
  while (committed_ < wanted) {
    const std::uint64_t seen = committed_;
    ASSERT_TRUE(eventually([&] { return committed_ > seen; })) << "at " << seen;
  }
}

void WalStage::start_relay(LanesOptions options) {
  options.relay = "heal";
  options.lanes = 1;
  if (options.conninfo.empty()) options.conninfo = conninfo;
  options.lease_term = 2s;
  options.heartbeat = 100ms;
  options.relay_options.connect_retry.cap = 200ms;
  options.notify = [this](std::int32_t, const RelayNotice& notice) {
    const std::lock_guard lock(mutex_);
    log_ += std::string(to_string(notice.kind)) + ": " + notice.text + "\n";
  };
  lanes_ = std::make_unique<postgres::Lanes>(
      std::move(options), system_clock(),
      [this](std::uint32_t) { return std::make_unique<BrokerSink>(broker, books); });
  relay_ = std::jthread([this](std::stop_token stop) {
    const Status ended = lanes_->run(stop);
    EXPECT_TRUE(ended) << text_of(ended);
  });
}

void WalStage::stop_relay() {
  relay_ = {};
  lanes_.reset();
}

std::string WalStage::log() const {
  const std::lock_guard lock(mutex_);
  return log_;
}

std::uint64_t WalStage::changes() const {
  const std::string all = log();
  const std::string mark = std::string(to_string(RelayNotice::Kind::source_changed)) + ": ";
  std::uint64_t found = 0;
  for (std::size_t at = all.find(mark); at != std::string::npos; at = all.find(mark, at + 1))
    ++found;
  return found;
}

bool WalStage::wait_for_stream(std::uint64_t starts_before) const {
  return eventually([&] { return streams() && metrics().stream_starts > starts_before; });
}

std::string WalStage::slot() {
  return text(sql,
              "SELECT coalesce(max(slot_name), '')::text FROM pg_replication_slots WHERE "
              "database = current_database()");
}

std::int64_t WalStage::retained_bytes() {
  return number(sql,
                "SELECT coalesce(max(pg_current_wal_lsn() - restart_lsn), 0) FROM "
                "pg_replication_slots");
}

void WalStage::check(const char* what) {
  if (!sql) sql = server.connect(database);
  check(what, sql);
}

void WalStage::check(const char* what, Connection& at) {
  stop_writers();
  const bool drained = eventually([&] {
    const Result<Rows> rows =
        at.query("SELECT count(*) FROM dovetail.events WHERE state = 'pending'");
    if (!rows && !at) {
      Result<Connection> again = Connection::open(conninfo);
      if (again) at = std::move(*again);
    }
    if (rows && rows->int8(0, 0) == 0) return true;
    std::this_thread::sleep_for(10ms);
    return false;
  });
  Books::Balance balance = books.compare(at);
  const std::uint64_t phantom = balance.phantom;
  if (&at != &sql) balance.phantom = 0;
  claim(drained && balance.is_even(),
        "%s: of %llu events %llu lost, %llu phantoms, %llu inverted, %llu sent twice; %llu changes "
        "of how it reads",
        what, static_cast<unsigned long long>(balance.committed),
        static_cast<unsigned long long>(balance.lost), static_cast<unsigned long long>(phantom),
        static_cast<unsigned long long>(balance.inverted),
        static_cast<unsigned long long>(balance.repeated),
        static_cast<unsigned long long>(changes()));
}

}  // namespace dovetail::live

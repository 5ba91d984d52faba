// How much WAL a relay makes the server keep, and how much memory the relay takes for its events.
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>

#include "kit/claims.h"
#include "postgres/testing/test_version.h"
#include "proofs/wal/server_stage.h"
#ifdef DOVETAIL_PROGRAM
#include "demo/process.h"
#include "servers/standstill.h"
#endif

namespace dovetail::postgres {
namespace {

using namespace std::chrono_literals;
using live::claim;
using live::WalStage;

constexpr std::int64_t kMiB = 1 << 20;
constexpr std::int64_t kRetainedMax = 64 * kMiB;

class WalVolume : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = std::make_unique<live::OwnServer>("wal_volume"); }
  static void TearDownTestSuite() { server_.reset(); }
  void SetUp() override { ASSERT_TRUE(server_->is_there()) << server_->missing(); }

  // Writes to a table that nobody reads, in transactions of 4 MiB, at most
  // 100 MiB per second. If the server can be asked to release WAL, it keeps
  // what is written within some tenths of a second. Returns the most that it
  // kept.
  static std::int64_t write_elsewhere(Connection& there, WalStage& stage, std::int64_t bytes) {
    must(there, "CREATE TABLE elsewhere (content text)");
    must(there, "ALTER TABLE elsewhere ALTER content SET STORAGE EXTERNAL");
    std::int64_t most = 0;
    const std::int64_t start = number(there, "SELECT pg_current_wal_lsn() - '0/0'");
    auto next = std::chrono::steady_clock::now();
    // Before 16 the server releases WAL every 15 s.
    const auto pause = live::is_long() && is_before(there, 16) ? 200ms : 40ms;
    for (int i = 0; number(there, "SELECT pg_current_wal_lsn() - '0/0'") - start < bytes; ++i) {
      std::this_thread::sleep_until(next);
      next = std::max(next, std::chrono::steady_clock::now()) + pause;
      must(there,
           "INSERT INTO elsewhere SELECT repeat(md5(n::text), 3200) FROM generate_series(1, 40) "
           "AS n");
      if (i % 16 == 0) must(there, "TRUNCATE elsewhere");
      most = std::max(most, stage.retained_bytes());
    }
    return most;
  }

  // Lines of the server's log that matter to people.
  static std::string errors_of_server() {
    const std::string conninfo = server_->conninfo();
    const std::size_t at = conninfo.find("host=") + 5;
    std::ifstream log(conninfo.substr(at, conninfo.find(' ', at) - at) + "/log");
    EXPECT_TRUE(log) << conninfo;
    std::string errors;
    for (std::string line; std::getline(log, line);)
      if (contains(line, "ERROR:")) errors += line + "\n";
    return errors;
  }

  static std::unique_ptr<live::OwnServer> server_;
};

std::unique_ptr<live::OwnServer> WalVolume::server_;

TEST_F(WalVolume, AnIdleOutboxHoldsBackNoLog) {
  const servers::Standstill standstill;
  const std::int64_t bytes = (live::is_long() ? 2048 : 100) * kMiB;
  WalStage stage(*server_);
  LanesOptions options;
  options.reading.mode = ReadMode::wal;
  stage.start_relay(options);
  ASSERT_TRUE(stage.wait_for_stream());
  Connection same = server_->connect(stage.database);
  Connection admin = server_->connect();
  must(admin, "CREATE DATABASE elsewhere");
  Connection other = server_->connect("elsewhere");
  for (Connection* there : {&same, &other}) {
    const std::int64_t most = write_elsewhere(*there, stage, bytes);
    std::int64_t kept = 0;
    const bool let_go = eventually([&] {
      kept = stage.retained_bytes();
      return kept <= kRetainedMax / 8;
    });
    // Beside other tests, some tenths of a second may become a whole one.
    const bool is_asked = !is_before(admin, 16);
    claim(let_go && (most <= kRetainedMax || !live::is_long() || !is_asked),
          "idle outbox: %lld MiB written to another %s; %lld MiB were kept then, %lld MiB at most",
          static_cast<long long>(bytes / kMiB), there == &same ? "table" : "database",
          static_cast<long long>(kept / kMiB), static_cast<long long>(most / kMiB));
  }
  if (standstill.is_below(500ms)) {
    EXPECT_EQ(stage.metrics().stream_ends, 0U);
  }
  EXPECT_EQ(errors_of_server(), "") << "who watches the server's log is woken up by it";
  stage.start_writers(10, 1ms);
  stage.let_write(20);
  stage.check("idle outbox");
}

#ifdef DOVETAIL_PROGRAM

constexpr std::int64_t kMemoryMaxKib = 64 << 10;

// The real process: `dovetail run` with its defaults.
class WalProcess : public WalVolume {
 protected:
  WalProcess() : stage_(*server_) { std::filesystem::create_directories(folder_); }
  ~WalProcess() override { std::filesystem::remove_all(folder_); }

  // The relay streams when this returns.
  shop::Process start(const std::string& mode) {
    const std::string config = folder_ + "/dovetail.toml";
    std::ofstream(config) << "[store.shop]\nurl = \"postgres:" << stage_.conninfo
                          << "\"\n[store.mail]\nurl = \"sqlite:mail.db\"\n"
                          << "[[relay]]\nname = \"big\"\nfrom = \"shop\"\nto = \"mail\"\nlanes = 1"
                          << "\nmode = \"" << mode << "\"\n";
    shop::Process init = shop::Process::start({DOVETAIL_PROGRAM, "--config", config, "init"}, log_);
    EXPECT_EQ(init.wait(90s), 0);
    shop::Process process =
        shop::Process::start({DOVETAIL_PROGRAM, "--config", config, "run"}, log_);
    EXPECT_TRUE(eventually([&] {
      return number(stage_.sql, "SELECT count(*) FROM dovetail.relay_lane WHERE reads_wal") == 1;
    }));
    return process;
  }

  // One transaction with that many events; then the relay's peak memory.
  void pass(const char* what, std::int64_t events, std::int64_t payload_bytes) {
    shop::Process process = start("wal");
    const auto begin = std::chrono::steady_clock::now();
    stage_.sql.set_timeout(900s);
    must(stage_.sql,
         "INSERT INTO dovetail.outbox (aggregate_type, aggregate_id, type, payload, content_type) "
         "SELECT 'order', (n % 10000)::text, 'placed', convert_to(repeat('x', " +
             std::to_string(payload_bytes) + "), 'UTF8'), 'text/plain' FROM generate_series(1, " +
             std::to_string(events) + ") AS n");
    std::int64_t settled = 0;
    while (settled < events) {
      const std::int64_t before = settled;
      const bool moves = eventually([&] {
        settled =
            number(stage_.sql, "SELECT coalesce(sum(delivered_total), 0) FROM dovetail.relay_lane");
        std::this_thread::sleep_for(20ms);
        return settled > before || !process.running();
      });
      if (!moves || !process.running()) break;
    }
    const double seconds = live::Seconds(std::chrono::steady_clock::now() - begin).count();
    const std::int64_t most = live::memory_kib("VmHWM", std::to_string(process.pid()));
    const bool streamed =
        number(stage_.sql, "SELECT count(*) FROM dovetail.relay_lane WHERE reads_wal") == 1;
    process.send(SIGTERM);
    EXPECT_EQ(process.wait(90s), 0);
    claim(settled == events && streamed && most > 0 &&
              (most <= kMemoryMaxKib || !live::kMemoryIsOurs),
          "one transaction of %s: %lld of %lld events in %.0f s; the relay process took at most "
          "%.1f MiB%s",
          what, static_cast<long long>(settled), static_cast<long long>(events), seconds,
          static_cast<double>(most) / 1024, streamed ? "" : ", and did not stay with the log");
    if (!::testing::Test::HasFailure()) return;
    std::ifstream lines(log_);
    for (std::string line; std::getline(lines, line);) std::printf("%s\n", line.c_str());
  }

  std::string folder_ = ::testing::TempDir() + "dovetail_wal_volume_" + std::to_string(getpid());
  std::string log_ = folder_ + "/log";
  WalStage stage_;
};

TEST_F(WalProcess, AMillionEventsInOneTransactionPassInBoundedMemory) {
  pass("many events", live::is_long() ? 1'000'000 : 50'000, 300);
}

TEST_F(WalProcess, ATransactionOfGigabytesPassesInBoundedMemory) {
  // 256 KiB each: 2 GiB, or 64 MiB.
  pass("large events", live::is_long() ? 8192 : 256, 256 << 10);
}

#endif

}  // namespace
}  // namespace dovetail::postgres

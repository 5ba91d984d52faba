// A backlog of any length and size passes through a relay process with bounded memory. The process
// is the real one: `dovetail run` with its defaults.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>

#include "demo/process.h"
#include "kit/claims.h"
#include "postgres/schema/schema.h"
#include "postgres/testing/test_database.h"

namespace dovetail::postgres {
namespace {

using namespace std::chrono_literals;
using live::claim;

constexpr std::int64_t kMemoryMaxKib = 64 << 10;

class Backlog : public ::testing::Test {
 protected:
  Backlog() {
    std::filesystem::create_directories(folder_);
    const Status made = create_schema(owner_);
    EXPECT_TRUE(made) << text_of(made);
  }
  ~Backlog() override { std::filesystem::remove_all(folder_); }

  // All in one transaction, so it is also one window.
  void publish(std::int64_t events, std::int64_t payload_bytes) {
    must(owner_,
         "INSERT INTO dovetail.outbox (aggregate_type, aggregate_id, type, payload, content_type) "
         "SELECT 'order', (n % 10000)::text, 'placed', convert_to(repeat('x', " +
             std::to_string(payload_bytes) + "), 'UTF8'), 'text/plain' FROM generate_series(1, " +
             std::to_string(events) + ") AS n");
  }

  // Relays everything; returns its peak memory in KiB, and sets the time it took.
  std::int64_t relay(std::int64_t events, double& seconds) {
    const std::string config = folder_ + "/dovetail.toml";
    std::ofstream(config) << "[store.shop]\nurl = \"postgres:" << database_.conninfo
                          << "\"\n[store.mail]\nurl = \"sqlite:mail.db\"\n"
                          << "[[relay]]\nname = \"backlog\"\nfrom = \"shop\"\nto = \"mail\"\n";
    const std::string log = folder_ + "/log";
    shop::Process init = shop::Process::start({DOVETAIL_PROGRAM, "--config", config, "init"}, log);
    EXPECT_EQ(init.wait(90s), 0) << "see " << log;
    const auto begin = std::chrono::steady_clock::now();
    shop::Process process =
        shop::Process::start({DOVETAIL_PROGRAM, "--config", config, "run"}, log);
    const std::string pid = std::to_string(process.pid());
    std::int64_t settled = 0;
    while (settled < events) {
      const std::int64_t before = settled;
      const bool moves = eventually([&] {
        settled =
            number(owner_, "SELECT coalesce(sum(delivered_total), 0) FROM dovetail.relay_lane");
        std::this_thread::sleep_for(20ms);
        return settled > before || !process.running();
      });
      if (!moves || !process.running()) break;
    }
    seconds = live::Seconds(std::chrono::steady_clock::now() - begin).count();
    const std::int64_t most = live::memory_kib("VmHWM", pid);
    process.send(SIGTERM);
    EXPECT_EQ(process.wait(90s), 0);
    EXPECT_EQ(settled, events);
    if (::testing::Test::HasFailure()) {
      std::ifstream lines(log);
      for (std::string line; std::getline(lines, line);) std::printf("%s\n", line.c_str());
    }
    return most;
  }

  std::string folder_ = ::testing::TempDir() + "dovetail_backlog_" + std::to_string(getpid());
  TestDatabase database_;
  Connection owner_ = database_.connect();
};

TEST_F(Backlog, OfMillionsOfEventsPassesInBoundedMemory) {
  const std::int64_t events = live::is_long() ? 2'000'000 : 200'000;
  owner_.set_timeout(600s);
  publish(events, 300);
  double seconds = 0;
  const std::int64_t most = relay(events, seconds);
  claim(most > 0 && (most <= kMemoryMaxKib || !live::kMemoryIsOurs),
        "backlog: %lld events of 300 bytes in one window passed in %.0f s; the relay process took "
        "at most %.1f MiB",
        static_cast<long long>(events), seconds, static_cast<double>(most) / 1024);
}

TEST_F(Backlog, OfLargeEventsPassesInBoundedMemory) {
  const std::int64_t events = live::is_long() ? 2000 : 200;
  owner_.set_timeout(600s);
  publish(events, 256 << 10);
  double seconds = 0;
  const std::int64_t most = relay(events, seconds);
  claim(most > 0 && (most <= kMemoryMaxKib || !live::kMemoryIsOurs),
        "backlog: %lld events of 256 KiB passed in %.0f s; the relay process took at most %.1f MiB",
        static_cast<long long>(events), seconds, static_cast<double>(most) / 1024);
}

}  // namespace
}  // namespace dovetail::postgres

// The janitor is killed while it forgets what was applied long ago, and what was applied comes
// again all the time: it is known, or known as forgotten, and never applied again.
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "core/inbox.h"
#include "crash/dying.h"
#include "demo/process.h"
#include "host/host.h"
#include "live/claims.h"
#include "postgres/inbox_store.h"
#include "postgres/schema.h"
#include "postgres/test_database.h"

namespace dovetail::postgres {
namespace {

using namespace std::chrono_literals;
using shop::Doom;
using shop::Process;

constexpr int kOldest = 90;  // days
constexpr int kYoungest = 40;
constexpr std::size_t kEventsOfADay = 6;
constexpr std::size_t kWithoutTime = 60;  // events whose ids do not say when they happened

// Of the time so many days ago, or of no time.
EventId id_of(int days) {
  EventId id = new_event_id();
  if (days == 0) {
    id.bytes[6] = static_cast<std::uint8_t>(0x40 | (id.bytes[6] & 0x0f));
    return id;
  }
  const auto ms = std::chrono::floor<std::chrono::milliseconds>(system_clock().wall() -
                                                                std::chrono::hours(24 * days))
                      .time_since_epoch()
                      .count();
  for (std::size_t i = 0; i < 6; ++i) id.bytes[i] = static_cast<std::uint8_t>(ms >> (40 - 8 * i));
  return id;
}

class InboxPrune : public testing::Test {
 protected:
  InboxPrune() {
    const Status made = create_schema(direct_);
    EXPECT_TRUE(made) << text_of(made);
    must(direct_, "CREATE TABLE effects (event_id uuid NOT NULL)");
    for (int day = kOldest; day >= kYoungest; --day) {
      make_partition(day);
      for (std::size_t i = 0; i < kEventsOfADay; ++i) add_event(day, id_of(day));
    }
    for (std::size_t i = 0; i < kWithoutTime; ++i) add_event(kOldest, id_of(0));
    apply_in_the_past();
  }

  void make_partition(int day) {
    const auto bound = [](int of) {
      return "(rpad(lpad(to_hex((extract(epoch FROM date_trunc('day', now() - interval '" +
             std::to_string(of) + " days')) * 1000)::bigint), 12, '0'), 32, '0'))::uuid";
    };
    must(direct_, "DO $$ BEGIN EXECUTE format('CREATE TABLE dovetail.inbox_old" +
                      std::to_string(day) +
                      " PARTITION OF dovetail.inbox FOR VALUES FROM (%L) TO (%L)', " + bound(day) +
                      ", " + bound(day - 1) + "); END $$");
  }
  void add_event(int day, const EventId& id) {
    Event event;
    event.id = id;
    event.type = "old";
    event.created_at = system_clock().wall() - std::chrono::hours(24 * day);
    events_.push_back(event);
  }
  void apply_in_the_past() {
    const Counts counts = deliver_all();
    EXPECT_EQ(counts.applied, events_.size());
    must(direct_,
         "UPDATE dovetail.inbox SET applied_at = now() - interval '90 days';"
         "UPDATE dovetail.consumer SET created_at = now() - interval '100 days'");
  }

  struct Counts {
    std::size_t applied = 0;
    std::size_t known = 0;
    std::size_t forgotten = 0;
  };
  // Once each, ten in a batch.
  Counts deliver_all() {
    InboxStoreOptions options{.conninfo = database_.conninfo, .consumer = "old", .handlers = {}};
    options.handlers.push_back(cpp_handler("old", {}, [](Handling& handling, const Event& event) {
      return handling.queue("INSERT INTO effects (event_id) VALUES ($1)", {event.id});
    }));
    PostgresInboxStore store(std::move(options));
    Inbox inbox(store, {});
    Counts counts;
    bool is_open = false;
    for (std::size_t first = 0; first < events_.size();) {
      std::vector<const Event*> batch;
      for (std::size_t i = first; i < std::min(first + 10, events_.size()); ++i)
        batch.push_back(&events_[i]);
      if (!is_open) is_open = static_cast<bool>(inbox.open());
      std::vector<Outcome> outcomes(batch.size());
      is_open = is_open && inbox.submit(batch) && inbox.collect(outcomes, 30s);
      if (!is_open) continue;
      first += batch.size();
      for (const Outcome& outcome : outcomes) {
        counts.applied += outcome.fate == Fate::confirmed ? 1U : 0U;
        counts.known += outcome.fate == Fate::duplicate ? 1U : 0U;
        counts.forgotten += outcome.fate == Fate::rejected ? 1U : 0U;
      }
    }
    (void)inbox.close();
    return counts;
  }
  Process prune(std::uint64_t bytes) const {
    return Process::start({DOVETAIL_DYING_PRUNER, database_.conninfo, std::to_string(bytes)},
                          "/dev/null");
  }

  TestDatabase database_;
  Connection direct_ = database_.connect();
  std::vector<Event> events_;
};

TEST_F(InboxPrune, KilledAnywhereLeavesNothingThatIsAppliedAgain) {
  const int kills = live::is_long() ? 50 : 5;
  std::mt19937_64 random(7);
  std::atomic<std::size_t> applied_again{0};
  std::atomic<std::size_t> rounds{0};
  int killed = 0;
  int finished = 0;
  {
    const std::jthread redeliver([&](std::stop_token stop) {
      while (!stop.stop_requested()) {
        applied_again += deliver_all().applied;
        ++rounds;
      }
    });
    while (killed < kills) {
      // Behind the greeting, and not much further than a few partitions.
      Process janitor = prune(9000 + random() % 4000);
      const std::optional<int> code = janitor.wait(60s);
      ASSERT_TRUE(code.has_value());
      killed += code == Doom::kExitCode ? 1 : 0;
      finished += code == 0 ? 1 : 0;
    }
  }
  const std::int64_t left = number(
      direct_, "SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relname LIKE 'inbox_old%'");
  // To the end, with nobody in the way.
  Process last = prune(1'000'000'000);
  EXPECT_EQ(last.wait(60s), 0);
  const Counts counts = deliver_all();
  const std::int64_t effects = number(direct_, "SELECT count(*) FROM effects");
  live::claim(
      applied_again == 0 && counts.applied == 0 && counts.forgotten == events_.size() &&
          effects == static_cast<std::int64_t>(events_.size()),
      "I9, killed %d times while pruning: %zu old events came again %zu times: %zu applied "
      "again; %lld days were dropped meanwhile; in the end %zu are known, %zu known as forgotten",
      killed, events_.size(), rounds.load(), applied_again.load() + counts.applied,
      static_cast<long long>(kOldest - kYoungest + 1 - left), counts.known, counts.forgotten);
  EXPECT_LT(left, kOldest - kYoungest + 1) << "none came far enough to forget anything";
  EXPECT_EQ(finished, 0) << "there was nothing left to prune; the rest of the kills are blind";
}

}  // namespace
}  // namespace dovetail::postgres

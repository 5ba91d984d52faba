// The pruner is killed while it deletes old inbox rows, and applied events come again all the time:
// each is known, or known as forgotten, and never applied again.
#include <gtest/gtest.h>

#include <random>
#include <thread>
#include <vector>

#include "core/inbox/inbox.h"
#include "demo/process.h"
#include "host/host.h"
#include "kit/claims.h"
#include "kit/dying.h"
#include "postgres/inbox/inbox_store.h"
#include "postgres/schema/schema.h"
#include "postgres/testing/test_database.h"

namespace dovetail::postgres {
namespace {

using namespace std::chrono_literals;
using shop::Doom;
using shop::Process;

constexpr int kOldest = 90;  // days
constexpr int kYoungest = 40;
constexpr std::size_t kEventsOfADay = 6;
constexpr std::size_t kWithoutTime = 60;  // events with ids that have no time

// An id with the time of `days` ago, or without a time.
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

// A database with events that were applied long ago.
class Past {
 public:
  Past() {
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

  struct Counts {
    std::size_t applied = 0;
    std::size_t known = 0;
    std::size_t forgotten = 0;
  };
  // Each once, ten in a batch.
  Counts deliver_all() {
    InboxStoreOptions options{.conninfo = database_.conninfo, .consumer = "old", .handlers = {}};
    options.handlers.push_back(
        cpp_handler("old", {}, [](Invocation& invocation, const Event& event) {
          return invocation.queue("INSERT INTO effects (event_id) VALUES ($1)", {event.id});
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
      is_open = is_open && inbox.submit(batch) && inbox.collect(outcomes, 90s);
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

  std::size_t size() const { return events_.size(); }
  std::int64_t count(const std::string& sql) { return number(direct_, sql); }

 private:
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

  TestDatabase database_;
  Connection direct_ = database_.connect();
  std::vector<Event> events_;
};

// The result of one such database.
struct Round {
  std::size_t events = 0;
  std::size_t redeliveries = 0;  // of all of them
  std::size_t applied_again = 0;
  std::size_t forgotten = 0;  // known as forgotten at the end
  std::int64_t days_dropped = 0;
  std::int64_t effects = 0;
};

Round kill_the_janitor(int kills, std::mt19937_64& random) {
  Past past;
  Round round;
  {
    const std::jthread redeliver([&](std::stop_token stop) {
      while (!stop.stop_requested()) {
        round.applied_again += past.deliver_all().applied;
        ++round.redeliveries;
      }
    });
    for (int killed = 0; killed < kills; ++killed) {
      // After the greeting, and within a few partitions.
      Process janitor = past.prune(9000 + random() % 4000);
      EXPECT_EQ(janitor.wait(120s), Doom::kExitCode) << "it had nothing left to do";
    }
  }
  constexpr int kDays = kOldest - kYoungest + 1;
  round.days_dropped = kDays - past.count(
                                   "SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relname "
                                   "LIKE 'inbox_old%'");
  // To the end, without interruption.
  EXPECT_EQ(past.prune(1'000'000'000).wait(120s), 0);
  const Past::Counts counts = past.deliver_all();
  round.applied_again += counts.applied;
  round.forgotten = counts.forgotten;
  round.events = past.size();
  round.effects = past.count("SELECT count(*) FROM effects");
  return round;
}

TEST(InboxPrune, KilledAnywhereLeavesNothingThatIsAppliedAgain) {
  const int rounds = live::is_long() ? 10 : 1;
  constexpr int kKills = 5;
  std::mt19937_64 random(7);
  Round sum;
  for (int i = 0; i < rounds; ++i) {
    const Round round = kill_the_janitor(kKills, random);
    EXPECT_GT(round.days_dropped, 0) << "none came far enough to forget anything";
    sum.events += round.events;
    sum.redeliveries += round.redeliveries;
    sum.applied_again += round.applied_again;
    sum.forgotten += round.forgotten;
    sum.days_dropped += round.days_dropped;
    sum.effects += round.effects;
  }
  live::claim(sum.applied_again == 0 && sum.forgotten == sum.events &&
                  sum.effects == static_cast<std::int64_t>(sum.events),
              "I9, killed %d times while pruning: %zu old events came again and again: %zu applied "
              "again; %lld days were dropped by those who died; in the end %zu are known as "
              "forgotten",
              rounds * kKills, sum.events, sum.applied_again,
              static_cast<long long>(sum.days_dropped), sum.forgotten);
}

}  // namespace
}  // namespace dovetail::postgres

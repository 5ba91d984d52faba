#include "host/host.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>
#include <thread>
#include <vector>

namespace dovetail {
namespace {

using namespace std::chrono_literals;

TEST(EventIds, GrowWithinAThread) {
  EventId last = new_event_id();
  for (int i = 0; i < 20'000; ++i) {
    const EventId next = new_event_id();
    ASSERT_LT(last, next);
    last = next;
  }
}

TEST(EventIds, AreUniqueOverThreads) {
  constexpr int kThreads = 4, kEach = 5000;
  std::vector<std::vector<EventId>> made(kThreads);
  {
    std::vector<std::jthread> threads;
    for (auto& ids : made)
      threads.emplace_back([&ids] {
        for (int i = 0; i < kEach; ++i) ids.push_back(new_event_id());
      });
  }
  std::set<EventId> all;
  for (const auto& ids : made) all.insert(ids.begin(), ids.end());
  EXPECT_EQ(all.size(), static_cast<std::size_t>(kThreads * kEach));
}

// The random half alone must differ: children forked in the same millisecond share their time.
TEST(EventIds, AChildOfForkNeverRepeatsItsParent) {
  constexpr int kChildren = 50, kEach = 8;
  (void)new_event_id();  // the parent's buffers are filled, as in a service
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  std::vector<pid_t> children;
  for (int c = 0; c < kChildren; ++c) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      EventId ids[kEach];
      for (EventId& id : ids) id = new_event_id();
      const bool sent = write(pipe_ends[1], ids, sizeof ids) == sizeof ids;
      _exit(sent ? 0 : 1);
    }
    children.push_back(child);
  }
  close(pipe_ends[1]);
  std::set<EventId> ids;
  std::set<std::vector<std::uint8_t>> random_halves;
  EventId id;
  while (read(pipe_ends[0], &id, sizeof id) == sizeof id) {
    ids.insert(id);
    random_halves.emplace(id.bytes.begin() + 8, id.bytes.end());
  }
  close(pipe_ends[0]);
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(ids.size(), static_cast<std::size_t>(kChildren * kEach));
  EXPECT_EQ(random_halves.size(), static_cast<std::size_t>(kChildren * kEach));
}

TEST(SystemClock, StopEndsASleep) {
  std::stop_source stop;
  std::jthread sleeper([&] { system_clock().sleep(std::chrono::hours(1), stop.get_token()); });
  stop.request_stop();
  sleeper.join();
}

TEST(SystemClock, SleepEndsByItself) {
  const TimePoint before = system_clock().now();
  system_clock().sleep(2ms, std::stop_token{});
  EXPECT_GE(system_clock().now() - before, 2ms);
}

TEST(SystemClock, KnowsTheBoot) { EXPECT_EQ(boot_id().size(), 36u); }

}  // namespace
}  // namespace dovetail

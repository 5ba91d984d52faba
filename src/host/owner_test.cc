#include "host/owner.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "core/testing/test_relay.h"

namespace dovetail {
namespace {

using State = Sighting::State;

const ProcessIdentity kSelf{"boot", "pid:[1]", 100, 5000};
const ProcessIdentity kOwner{"boot", "pid:[1]", 200, 6000};

bool gone(const ProcessIdentity& owner, Sighting seen,
          const std::optional<ProcessIdentity>& self = kSelf) {
  return is_gone(owner, self, [&](std::int64_t pid) {
    EXPECT_EQ(pid, owner.pid);
    return seen;
  });
}

TEST(Sighting, TakesTheNameOfAProgramAsItIs) {
  const std::string fields = " 1 1 1 0 -1 4194560 1 0 0 0 1 1 0 0 20 0 1 0 5000 1 1";
  EXPECT_EQ(sighting_in("7 (a) Z b) R" + fields).state, State::alive);
  EXPECT_EQ(sighting_in("7 (a) R b) Z" + fields).state, State::dead);
  EXPECT_EQ(sighting_in("7 (a) Z" + fields).started, 5000U);
  EXPECT_EQ(sighting_in("7 (a) Z 1 1 1").state, State::unknown);
  EXPECT_EQ(sighting_in("").state, State::unknown);
}

TEST(Owner, OneWhoseProcessIsNotThereIsGone) { EXPECT_TRUE(gone(kOwner, {State::none, 0})); }

TEST(Owner, OneWhoseProcessRunsIsNot) { EXPECT_FALSE(gone(kOwner, {State::alive, 6000})); }

TEST(Owner, AProcessThatStartedAtAnotherTimeHasOnlyTheSameNumber) {
  EXPECT_TRUE(gone(kOwner, {State::alive, 6001}));
}

TEST(Owner, OneThatIsDeadAndOnlyNotNoticedYetIsGone) {
  EXPECT_TRUE(gone(kOwner, {State::dead, 6000}));
}

TEST(Owner, WhereNothingCanBeSeenNothingIsProved) {
  EXPECT_FALSE(gone(kOwner, {State::unknown, 0}));
  EXPECT_FALSE(gone(kOwner, {State::none, 0}, std::nullopt));
}

TEST(Owner, OfAnotherBootOrNamespaceNothingIsProved) {
  ProcessIdentity other = kOwner;
  other.boot = "another";
  EXPECT_FALSE(gone(other, {State::none, 0}));
  other = kOwner;
  other.namespaces = "pid:[2]";
  EXPECT_FALSE(gone(other, {State::none, 0}));
}

TEST(Owner, ItsTextHasAPartForPeopleAndTellsWhoItIs) {
  const std::string owner = lease_owner("host:1");
  EXPECT_EQ(shown_owner(owner).substr(0, 7), "host:1#");
  EXPECT_EQ(shown_owner(owner).find('@'), std::string::npos);
  EXPECT_NE(shown_owner(owner), shown_owner(lease_owner("host:1")));
  ASSERT_TRUE(own_identity());
  EXPECT_EQ(identity_in(owner), own_identity());
  EXPECT_FALSE(is_gone(owner));
}

TEST(Owner, ATextOfAnEarlierVersionProvesNothing) {
  EXPECT_FALSE(identity_in("host:1#1a2b3c"));
  EXPECT_FALSE(identity_in("host:1#1a2b3c@"));
  EXPECT_FALSE(identity_in("host:1#1a2b3c@x/1/pid:[1]/boot"));
  EXPECT_FALSE(identity_in("host:1#1a2b3c@1/1/pid:[1]"));
  EXPECT_FALSE(is_gone("host:1#1a2b3c"));
  EXPECT_EQ(shown_owner("host:1#1a2b3c"), "host:1#1a2b3c");
}

// A real process: it runs, it is dead but not collected, it is gone.
TEST(Owner, AChildIsSeenInEachOfItsStates) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    for (;;) ::pause();
  }
  const Sighting alive = look_for_process(child);
  EXPECT_EQ(alive.state, State::alive);
  ProcessIdentity identity = own_identity().value();
  identity.pid = child;
  identity.started = alive.started;
  EXPECT_FALSE(is_gone(identity, own_identity(), look_for_process));
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  EXPECT_TRUE(eventually([&] { return look_for_process(child).state == State::dead; }));
  EXPECT_TRUE(is_gone(identity, own_identity(), look_for_process));
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(is_gone(identity, own_identity(), look_for_process));
}

// The first thread of a process can end before the others, and then looks dead.
TEST(Owner, AProcessWhoseOtherThreadsRunIsNotGone) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::thread([] {
      for (;;) ::pause();
    }).detach();
    ::syscall(SYS_exit, 0);  // ends this thread only
  }
  const auto first_thread_ended = [&] {
    std::ifstream file("/proc/" + std::to_string(child) + "/stat");
    std::string line;
    std::getline(file, line);
    return line.find(") Z ") != std::string::npos;
  };
  EXPECT_TRUE(eventually(first_thread_ended));
  EXPECT_EQ(look_for_process(child).state, State::alive);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace dovetail

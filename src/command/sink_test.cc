#include "command/sink.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

#include "core/testing/test_sinks.h"
#include "host/host.h"
#include "kit/eventually.h"

namespace dovetail::command {
namespace {

using namespace std::chrono_literals;
using Fates = std::vector<Fate>;

class CommandSinkTest : public testing::Test {
 protected:
  CommandSinkTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "command_XXXXXX").string();
    EXPECT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    setenv("TEST_FOLDER", folder_.c_str(), 1);
  }
  ~CommandSinkTest() override {
    sink_.reset();
    std::filesystem::remove_all(folder_);
  }
  // The program is a script of the shell.
  void make(const std::string& script, Options options = {}) {
    options.command = {"sh", "-c", script, "handler"};
    options.environment.emplace_back("TEST_FOLDER");
    sink_ = std::make_unique<CommandSink>(options, system_clock());
    const Status opened = sink_->open();
    ASSERT_TRUE(opened) << opened.error().text;
  }
  std::vector<Outcome> deliver(const std::vector<const Event*>& events) {
    EXPECT_TRUE(sink_->submit(events));
    return collect_from(*sink_, events.size(), 100ms);
  }
  std::string content(const std::string& name) const {
    std::ifstream file(folder_ + "/" + name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static bool is_alive(const std::string& pid) {
    const std::filesystem::path folder = "/proc/" + pid;
    std::ifstream file(folder / "stat");
    const std::string stat{std::istreambuf_iterator<char>(file), {}};
    return !stat.empty() && stat.find(") Z ") == std::string::npos;
  }

  std::string folder_;
  NumberedEvents events_;
  std::unique_ptr<CommandSink> sink_;
};

TEST_F(CommandSinkTest, TheProgramGetsTheEventOnItsInputAndInItsEnvironment) {
  make(R"(cat >"$TEST_FOLDER/input"
printf '%s|%s|%s|%s|%s' "$DOVETAIL_EVENT_ID" "$DOVETAIL_EVENT_TYPE" "$DOVETAIL_EVENT_KEY" \
  "$DOVETAIL_EVENT_AGGREGATE_TYPE" "$DOVETAIL_EVENT_TOPIC" >"$TEST_FOLDER/environment"
echo "$0" >"$TEST_FOLDER/name"; echo noise)");
  const Event* event = events_.make("17", "{\"total\":5}", "placed");
  EXPECT_EQ(fates_of(deliver({event})), (Fates{Fate::confirmed}));
  const auto json = nlohmann::json::parse(content("input"));
  EXPECT_EQ(json["id"], event->id.to_string());
  EXPECT_EQ(json["payload"], "{\"total\":5}");
  EXPECT_EQ(content("environment"), event->id.to_string() + "|placed|17|order|orders");
  EXPECT_EQ(content("name"), "handler\n") << "arguments are passed as they are";
}

TEST_F(CommandSinkTest, TheExitCodeSaysWhatBecameOfTheEvent) {
  make(R"(echo first >&2; echo "code $DOVETAIL_EVENT_KEY" >&2; exit "$DOVETAIL_EVENT_KEY")");
  const auto outcomes = deliver({events_.make("0", "x"), events_.make("65", "x"),
                                 events_.make("75", "x"), events_.make("1", "x")});
  EXPECT_EQ(fates_of(outcomes), (Fates{Fate::confirmed, Fate::rejected, Fate::busy, Fate::failed}));
  EXPECT_EQ(outcomes[1].reason,
            "the command exited with 65, saying: code 65; check the event, then replay or discard "
            "it");
  EXPECT_EQ(outcomes[3].reason, "the command exited with 1, saying: code 1; check the command");
}

TEST_F(CommandSinkTest, ASignalIsAFailure) {
  make("kill -SEGV $$");
  const auto outcomes = deliver({events_.make("a", "x")});
  EXPECT_EQ(outcomes[0].fate, Fate::failed);
  EXPECT_EQ(outcomes[0].reason, "the command was killed by signal 11; check the command");
}

TEST_F(CommandSinkTest, AfterTheTimeoutTheWholeGroupIsKilledAndItCountsAsAFailure) {
  make(R"(sleep 1000 & echo $! >"$TEST_FOLDER/child.tmp"
mv "$TEST_FOLDER/child.tmp" "$TEST_FOLDER/child"; echo waiting >&2; wait)",
       {.timeout = 1s});
  const auto outcomes = deliver({events_.make("a", "x")});
  EXPECT_EQ(outcomes[0].fate, Fate::failed);
  EXPECT_EQ(outcomes[0].reason,
            "the command took longer than 1000 ms and was killed, saying: waiting; check the "
            "command, or raise its timeout");
  std::string child = content("child");
  ASSERT_FALSE(child.empty());
  child.pop_back();
  EXPECT_TRUE(eventually([&] { return !is_alive(child); }));
}

TEST_F(CommandSinkTest, OpeningAgainAndTheEndKillWhatRuns) {
  make(R"(echo $$ >"$TEST_FOLDER/pid.tmp"; mv "$TEST_FOLDER/pid.tmp" "$TEST_FOLDER/pid"
exec sleep 1000)");
  for (const bool ends : {false, true}) {
    const std::vector<const Event*> events{events_.make("a", "x")};
    ASSERT_TRUE(sink_->submit(events));
    ASSERT_TRUE(eventually([&] { return !content("pid").empty(); }));
    std::string pid = content("pid");
    pid.pop_back();
    EXPECT_TRUE(is_alive(pid));
    std::filesystem::remove(folder_ + "/pid");
    if (ends) {
      sink_.reset();
    } else {
      ASSERT_TRUE(sink_->open());
    }
    EXPECT_FALSE(is_alive(pid));
  }
}

TEST_F(CommandSinkTest, WhenThisProcessIsKilledSoIsTheProgram) {
  make(R"(echo $$ >"$TEST_FOLDER/pid.tmp"; mv "$TEST_FOLDER/pid.tmp" "$TEST_FOLDER/pid"
exec sleep 1000)");
  const std::vector<const Event*> events{events_.make("a", "x")};
  const pid_t child = fork();
  if (child == 0) {
    (void)sink_->submit(events);
    for (;;) pause();
  }
  ASSERT_TRUE(eventually([&] { return !content("pid").empty(); }));
  std::string pid = content("pid");
  pid.pop_back();
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(eventually([&] { return !is_alive(pid); }));
}

TEST_F(CommandSinkTest, SeveralRunAtATimeAndOneOfAKey) {
  // Each program waits until as many run as may.
  make(R"sh(mkdir -p "$TEST_FOLDER/running"; mkdir "$TEST_FOLDER/key-$DOVETAIL_EVENT_KEY" || exit 1
touch "$TEST_FOLDER/running/$DOVETAIL_EVENT_ID"
i=0; while [ "$(ls "$TEST_FOLDER/running" | wc -l)" -lt 3 ] && [ $i -lt 3000 ]; do
  sleep 0.01; i=$((i+1)); done
rmdir "$TEST_FOLDER/key-$DOVETAIL_EVENT_KEY"
[ $i -lt 3000 ])sh",
       {.processes_max = 3});
  const auto outcomes = deliver({events_.make("a", "1"), events_.make("a", "2"),
                                 events_.make("b", "3"), events_.make("c", "4")});
  for (const Outcome& outcome : outcomes)
    EXPECT_EQ(outcome.fate, Fate::confirmed) << outcome.reason;
}

TEST_F(CommandSinkTest, BehindAFailureNothingOfItsKeyRuns) {
  make(R"(echo "$DOVETAIL_EVENT_TYPE" >>"$TEST_FOLDER/ran"; [ "$DOVETAIL_EVENT_TYPE" != bad ])");
  ASSERT_TRUE(
      sink_->submit(std::vector{events_.make("a", "1", "bad"), events_.make("a", "2", "behind")}));
  ASSERT_TRUE(sink_->submit(std::vector{events_.make("a", "3", "later")}));
  EXPECT_EQ(fates_of(collect_from(*sink_, 2, 100ms)), (Fates{Fate::failed, Fate::again}));
  EXPECT_EQ(fates_of(collect_from(*sink_, 1, 100ms)), (Fates{Fate::again}));
  EXPECT_EQ(fates_of(deliver({events_.make("a", "4", "next")})), (Fates{Fate::confirmed}));
  EXPECT_EQ(content("ran"), "bad\nnext\n");
}

TEST_F(CommandSinkTest, ManyInARowThatSayNotNowAreAnOutage) {
  make("echo database is away >&2; exit 75");
  std::vector<const Event*> events;
  for (int i = 0; i < 20; ++i) events.push_back(events_.make(std::to_string(i), "x"));
  ASSERT_TRUE(sink_->submit(events));
  std::vector<Outcome> outcomes(20);
  Result<bool> known = false;
  ASSERT_TRUE(eventually([&] { return !(known = sink_->collect(outcomes, 10ms)) || *known; }));
  ASSERT_FALSE(known);
  EXPECT_EQ(known.error().code, Errc::unavailable);
  EXPECT_NE(known.error().text.find("database is away"), std::string::npos);
  EXPECT_TRUE(sink_->open());
}

TEST_F(CommandSinkTest, AProgramThatIsNotThereIsAnOutageAndNoFault) {
  EXPECT_EQ(check({}).error().code, Errc::rejected);
  EXPECT_EQ(check({"/nowhere/handler"}).error().code, Errc::unavailable);
  EXPECT_EQ(check({"no-such-program-anywhere"}).error().code, Errc::unavailable);
  EXPECT_TRUE(check({"sh"}));
  const std::string script = folder_ + "/handler";
  std::ofstream(script) << "#!/bin/sh\nexit 0\n";
  CommandSink sink({.command = {script}}, system_clock());
  EXPECT_FALSE(sink.open()) << "it is not executable";
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  ASSERT_TRUE(sink.open());
  const std::vector<const Event*> events{events_.make("a", "x")};
  ASSERT_TRUE(sink.submit(events));
  EXPECT_EQ(fates_of(collect_from(sink, 1, 100ms)), (Fates{Fate::confirmed}));

  std::filesystem::remove(script);
  ASSERT_TRUE(sink.submit(events));
  std::vector<Outcome> outcomes(1);
  const Result<bool> known = sink.collect(outcomes, 100ms);
  ASSERT_FALSE(known);
  EXPECT_EQ(known.error().code, Errc::unavailable);
  EXPECT_NE(known.error().text.find("cannot run"), std::string::npos) << known.error().text;
}

TEST_F(CommandSinkTest, AProgramThatReadsNothingAndWritesMuchHoldsNobodyUp) {
  make("yes 'a long line of noise' | head -c 1000000 >&2; echo >&2; echo end >&2; exit 3");
  const std::string large(1'000'000, 'x');
  const auto outcomes = deliver({events_.make("a", large)});
  EXPECT_EQ(outcomes[0].reason, "the command exited with 3, saying: end; check the command");
}

TEST_F(CommandSinkTest, ALargeEventIsReadWhole) {
  make(R"(wc -c >"$TEST_FOLDER/bytes")");
  const std::string large(1'000'000, 'x');
  EXPECT_EQ(fates_of(deliver({events_.make("a", large)})), (Fates{Fate::confirmed}));
  EXPECT_GT(std::stol(content("bytes")), 1'000'000);
}

TEST_F(CommandSinkTest, TheProgramFindsNoSecretOfOursInItsEnvironment) {
  setenv("PGPASSWORD", "do not tell", 1);
  setenv("TEST_SECRET", "nor this", 1);
  setenv("TEST_WANTED", "a plain setting", 1);
  setenv("DOVETAIL_EVENT_OTHER", "of another event", 1);
  make(R"(env | sed 's/=.*//' | sort >"$TEST_FOLDER/names"
printf '%s' "$TEST_WANTED" >"$TEST_FOLDER/wanted"
tr '\0' '\n' <"/proc/$$/environ" >"$TEST_FOLDER/own")",
       {.environment = {"TEST_WANTED", "NOT_SET_ANYWHERE", "PATH"}});
  EXPECT_EQ(fates_of(deliver({events_.make("a", "x")})), (Fates{Fate::confirmed}));
  EXPECT_EQ(content("wanted"), "a plain setting");
  EXPECT_EQ(content("own").find("PGPASSWORD"), std::string::npos) << content("own");
  EXPECT_EQ(content("own").find("nor this"), std::string::npos) << content("own");
  std::istringstream names(content("names"));
  const std::set<std::string> expected{"PATH",
                                       "HOME",
                                       "LANG",
                                       "TZ",
                                       "TEST_FOLDER",
                                       "TEST_WANTED",
                                       "DOVETAIL_EVENT_ID",
                                       "PWD",
                                       "OLDPWD",
                                       "SHLVL",
                                       "_",
                                       "DOVETAIL_EVENT_TYPE",
                                       "DOVETAIL_EVENT_KEY",
                                       "DOVETAIL_EVENT_AGGREGATE_TYPE",
                                       "DOVETAIL_EVENT_TOPIC"};
  for (std::string name; std::getline(names, name);) EXPECT_TRUE(expected.contains(name)) << name;
}

}  // namespace
}  // namespace dovetail::command

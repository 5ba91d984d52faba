#include "core/findings.h"

#include <gtest/gtest.h>

namespace dovetail {
namespace {

using namespace std::chrono_literals;

TEST(FindingsTable, ATextHasItsFacts) {
  Facts facts;
  facts.set("name", "a{b}").set("late", Duration(3min)).set("kept", 64 << 20).set("broker", 1);
  EXPECT_EQ(filled("{name} is {late:age} late", facts), "a{b} is 3 minutes late");
  EXPECT_EQ(filled("{kept:bytes}, {broker:broker|brokers}", facts), "64 MiB, 1 broker");
  EXPECT_EQ(filled("{kept:byte|bytes}", facts), "67108864 bytes");
  EXPECT_EQ(filled("{nothing} {", facts), "unknown {");
}

TEST(FindingsTable, AgesAndBytesAreForPeople) {
  const auto age = [](Duration value) { return filled("{x:age}", Facts().set("x", value)); };
  EXPECT_EQ(age(-5s), "0 milliseconds");
  EXPECT_EQ(age(7ms), "7 milliseconds");
  EXPECT_EQ(age(1s), "1 second");
  EXPECT_EQ(age(119s), "119 seconds");
  EXPECT_EQ(age(2h), "2 hours");
  EXPECT_EQ(age(48h), "2 days");
  const auto bytes = [](std::int64_t value) {
    return filled("{x:bytes}", Facts().set("x", value));
  };
  EXPECT_EQ(bytes(5), "5 B");
  EXPECT_EQ(bytes(2048), "2 KiB");
  EXPECT_EQ(bytes(std::int64_t{20} << 30), "20 GiB");
}

TEST(FindingsTable, AFactThatIsUnknownIsNothing) {
  Facts facts;
  facts.set("number", 7).set("text", "on").set("flag", true);
  EXPECT_EQ(facts.number("number"), 7);
  EXPECT_EQ(facts.number("text", -1), -1);
  EXPECT_EQ(facts.number("nothing", -1), -1);
  EXPECT_TRUE(facts.is("flag"));
  EXPECT_TRUE(facts.is("text", "on"));
  EXPECT_FALSE(facts.is("nothing", ""));
  EXPECT_EQ(facts.set(Facts().set("number", 8)).number("number"), 8);
}

TEST(FindingsTable, OnlyWhatAppliesIsFound) {
  constexpr Check kChecks[] = {
      {Severity::error, "few", [](const Facts& f) { return f.number("n") < 3; }, "only {n}",
       "more"},
      {Severity::note, "many", [](const Facts& f) { return f.number("n") >= 3; }, "{n}", "fewer"},
      {Severity::warning, "always", nullptr, "{n}", "so it is"}};
  Findings findings;
  findings.check(kChecks, Facts().set("n", 2));
  const std::vector<Finding> all = findings.take();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].code, "few");
  EXPECT_EQ(all[0].what, "only 2");
  EXPECT_EQ(all[1].severity, Severity::warning);
}

TEST(FindingsTable, HowBadItIsMayDependOnTheFacts) {
  constexpr Check kCheck{
      [](const Facts& f) { return f.number("n") < 3 ? Severity::error : Severity::note; }, "few",
      nullptr, "{n}", "more"};
  Findings findings;
  for (const int n : {2, 3}) findings.add(kCheck, Facts().set("n", n));
  const std::vector<Finding> all = findings.take();
  EXPECT_EQ(all[0].severity, Severity::error);
  EXPECT_EQ(all[1].severity, Severity::note);
}

}  // namespace
}  // namespace dovetail

#include "console/jobs/jobs.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>

#include "host/errand.h"
#include "host/host.h"

namespace dovetail::console {
namespace {

using namespace std::chrono_literals;
using State = JobView::State;

class JobsTest : public ::testing::Test {
 protected:
  // Until it has ended.
  JobView ended(const std::string& id) {
    while (true) {
      const auto view = jobs->find(id);
      if (!view || view->state != State::running) return view.value_or(JobView{});
      std::this_thread::sleep_for(1ms);
    }
  }
  static Result<JobProduct> product(const std::string& page) {
    return JobProduct{std::make_shared<const app::Json>(), std::make_shared<std::string>(page)};
  }
  // Works until it is told to stop.
  static Result<JobProduct> endless(const Jobs::Watch& watch) {
    while (watch({"counting", 7, 9})) std::this_thread::sleep_for(1ms);
    return fail(Errc::stopped, "stopped");
  }

  std::unique_ptr<Jobs> jobs = std::make_unique<Jobs>(system_clock());
};

TEST_F(JobsTest, KeepsWhatAJobMade) {
  const auto id = jobs->begin("olga", {{"outbox", "shop"}}, [](const Jobs::Watch& watch) {
    EXPECT_TRUE(watch({"reading", 3, 0}));
    return product("page");
  });
  ASSERT_TRUE(id);
  const JobView view = ended(*id);
  EXPECT_EQ(view.state, State::done);
  EXPECT_EQ(view.by, "olga");
  EXPECT_EQ(*view.asked, app::Json({{"outbox", "shop"}}));
  EXPECT_EQ(view.progress.doing, "reading");
  EXPECT_EQ(*view.product.page, "page");
  EXPECT_TRUE(view.ended_at);
  EXPECT_FALSE(jobs->find("another"));
}

TEST_F(JobsTest, OneRunsAtATimeAndStopsWhenItIsTold) {
  const auto id = jobs->begin("olga", {}, endless);
  ASSERT_TRUE(id);
  EXPECT_FALSE(jobs->begin("vera", {}, endless));
  while (jobs->find(*id)->progress.read != 7) std::this_thread::sleep_for(1ms);
  EXPECT_FALSE(jobs->stop("another"));
  EXPECT_TRUE(jobs->stop(*id));
  EXPECT_EQ(ended(*id).state, State::stopped);
  EXPECT_TRUE(jobs->begin("vera", {}, [](const Jobs::Watch&) { return product(""); }));
}

TEST_F(JobsTest, AJobThatFailsSaysWhy) {
  const auto failed = jobs->begin("olga", {}, [](const Jobs::Watch&) -> Result<JobProduct> {
    return fail(Errc::unavailable, "the store is away");
  });
  EXPECT_EQ(ended(*failed).state, State::failed);
  EXPECT_EQ(jobs->find(*failed)->error, "the store is away");
  const auto thrown = jobs->begin("olga", {}, [](const Jobs::Watch&) -> Result<JobProduct> {
    throw std::runtime_error("broken");
  });
  EXPECT_EQ(ended(*thrown).state, State::failed);
  EXPECT_NE(jobs->find(*thrown)->error.find("broken"), std::string::npos);
}

TEST_F(JobsTest, KeepsTheLastFew) {
  std::string first;
  for (std::size_t i = 0; i <= Jobs::kKept; ++i) {
    const auto id = jobs->begin("olga", {}, [](const Jobs::Watch&) { return product(""); });
    ASSERT_TRUE(id);
    if (i == 0) first = *id;
    ended(*id);
  }
  EXPECT_EQ(jobs->all().size(), Jobs::kKept);
  EXPECT_FALSE(jobs->find(first));
}

TEST_F(JobsTest, AJobEndsWhenNobodyCanAskForItAnyMore) {
  ASSERT_TRUE(jobs->begin("olga", {}, endless));
  jobs.reset();
  EXPECT_TRUE(wait_for_errands(60s));
}

}  // namespace
}  // namespace dovetail::console

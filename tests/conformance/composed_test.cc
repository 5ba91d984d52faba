// Sinks made of other sinks, and the command sink, pass the sink suite; claims in memory pass the
// claim suite.
#include <algorithm>
#include <deque>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "command/sink.h"
#include "conformance/claim_suite.h"
#include "conformance/sink_suite.h"
#include "core/sinks/chained_sink.h"
#include "core/sinks/claimed_sink.h"
#include "core/testing/test_clock.h"
#include "core/testing/test_sinks.h"
#include "host/host.h"
#include "host/parallel_sink.h"
#include "memory/claim_store.h"
#include "memory/sink.h"

namespace dovetail::conformance {
namespace {

void refuse_poison(MemorySink& sink) {
  sink.decide_by([](const Event& event) {
    if (event.type == "poison") return Outcome{Fate::rejected, 0, "refused by the test"};
    return Outcome{Fate::confirmed, 0, {}};
  });
}

std::string decoded(const std::string& base64) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  unsigned bits = 0;
  int count = 0;
  for (const char c : base64) {
    if (c == '=') break;
    bits = bits << 6 | static_cast<unsigned>(digits.find(c));
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xff);
  }
  return bytes;
}

// The second stage refuses, after the first has done its part.
class ChainStore final : public SinkUnderTest {
 public:
  ChainStore() { refuse_poison(second_); }
  SinkAbilities abilities() const override { return {true, true, true, false}; }
  std::unique_ptr<Sink> make() override {
    return std::make_unique<ChainedSink>(std::vector<ChainedSink::Stage>{
        {borrowed(first_)}, {borrowed(second_)}, {borrowed(third_)}});
  }
  std::vector<StoredEvent> stored() override { return third_.received(); }
  void make_poison(Event& event) override { event.type = "poison"; }

 private:
  MemorySink first_;
  MemorySink second_;
  MemorySink third_;
};

// The claims know duplicates; the inner sink does not.
template <bool kKeepsOrder>
class ClaimedStore final : public SinkUnderTest {
 public:
  ClaimedStore() { refuse_poison(inner_); }
  SinkAbilities abilities() const override { return {true, true, true, false}; }
  std::unique_ptr<Sink> make() override {
    return std::make_unique<ClaimedSink>(store_, inner_, system_clock(), ClaimedSinkOptions{});
  }
  std::vector<StoredEvent> stored() override { return inner_.received(); }
  void make_poison(Event& event) override { event.type = "poison"; }

 private:
  MemoryClaimDatabase database_{system_clock()};
  MemoryClaimStore store_{database_, "mail"};
  MemorySink inner_{{.dedup = false, .keeps_order_on_failure = kKeepsOrder}};
};

class ParallelStore final : public SinkUnderTest {
 public:
  ParallelStore() {
    for (MemorySink& one : inner_) refuse_poison(one);
  }
  SinkAbilities abilities() const override { return {true, true, true, false}; }
  std::unique_ptr<Sink> make() override {
    std::vector<std::shared_ptr<Sink>> sinks;
    for (MemorySink& one : inner_) sinks.push_back(borrowed(one));
    return std::make_unique<ParallelSink>(std::move(sinks), system_clock());
  }
  // The order across keys is not guaranteed.
  std::vector<StoredEvent> stored() override {
    std::vector<StoredEvent> all;
    for (const MemorySink& one : inner_)
      for (StoredEvent& event : one.received()) all.push_back(std::move(event));
    std::stable_sort(all.begin(), all.end(),
                     [](const StoredEvent& a, const StoredEvent& b) { return a.id < b.id; });
    return all;
  }
  void make_poison(Event& event) override { event.type = "poison"; }

 private:
  std::deque<MemorySink> inner_{3};
};

// A program that appends each event to a file, one at a time, because several have no order.
class CommandStore final : public SinkUnderTest {
 public:
  CommandStore() {
    std::string pattern = (std::filesystem::temp_directory_path() / "command_XXXXXX").string();
    EXPECT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  ~CommandStore() override { std::filesystem::remove_all(folder_); }
  SinkAbilities abilities() const override { return {true, false, true, false}; }
  std::unique_ptr<Sink> make() override {
    const std::string script = "[ \"$DOVETAIL_EVENT_TYPE\" != poison ] || exit 65; cat >>\"$0\"";
    command::Options options;
    options.command = {"/bin/sh", "-c", script, folder_ + "/stored"};
    options.processes_max = 1;
    return std::make_unique<command::CommandSink>(options, system_clock());
  }
  std::vector<StoredEvent> stored() override {
    std::vector<StoredEvent> events;
    std::ifstream file(folder_ + "/stored");
    for (std::string line; std::getline(file, line);) {
      const auto json = nlohmann::json::parse(line);
      const auto text = [&](const char* name) { return json[name].get<std::string>(); };
      StoredEvent& event = events.emplace_back(Event{});
      event.id = *EventId::parse(text("id"));
      event.topic = text("topic");
      event.aggregate_type = text("aggregate_type");
      event.aggregate_id = text("aggregate_id");
      event.type = text("type");
      event.content_type = text("content_type");
      event.headers = json["headers"].dump();
      event.aggregate_version = json["aggregate_version"];
      event.payload = json.contains("payload") ? text("payload") : decoded(text("payload_base64"));
    }
    return events;
  }
  void make_poison(Event& event) override { event.type = "poison"; }

 private:
  std::string folder_;
};

class MemoryClaims final : public ClaimsUnderTest {
 public:
  std::unique_ptr<ClaimStore> make(const std::string& consumer) override {
    return std::make_unique<MemoryClaimStore>(database_, consumer);
  }
  void pass(Duration duration) override { clock_.advance(duration); }
  void set_clock(std::chrono::hours step) override { clock_.set_wall(clock_.wall() + step); }

 private:
  TestClock clock_;
  MemoryClaimDatabase database_{clock_};
};

template <class Base, class Made>
std::unique_ptr<Base> make() {
  return std::make_unique<Made>();
}

INSTANTIATE_TEST_SUITE_P(
    Composed, SinkSuite,
    testing::Values(SinkCase{"chained", make<SinkUnderTest, ChainStore>},
                    SinkCase{"claimed", make<SinkUnderTest, ClaimedStore<true>>},
                    SinkCase{"claimed_one_by_one", make<SinkUnderTest, ClaimedStore<false>>},
                    SinkCase{"parallel", make<SinkUnderTest, ParallelStore>},
                    SinkCase{"command", make<SinkUnderTest, CommandStore>}),
    case_name<SinkCase>);
INSTANTIATE_TEST_SUITE_P(Memory, ClaimSuite,
                         testing::Values(ClaimCase{"claims", make<ClaimsUnderTest, MemoryClaims>}),
                         case_name<ClaimCase>);

}  // namespace
}  // namespace dovetail::conformance

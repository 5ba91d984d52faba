// A broker written against the seam alone passes the suites for all brokers. docs/ADD_A_BROKER.md
// describes its parts.
#include "toy_broker.h"

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "conformance/sink_suite.h"
#include "conformance/source_suite.h"

namespace dovetail::conformance {
namespace {

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "dovetail_toy_XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path_); }
  toy::Options options(const std::string& group) const {
    return {.file = (path_ / "orders").string(), .group = group};
  }

 private:
  std::filesystem::path path_;
};

class ToySinkStore final : public SinkUnderTest {
 public:
  SinkAbilities abilities() const override { return {true, false, true, false}; }
  std::unique_ptr<Sink> make() override {
    return std::make_unique<toy::ToySink>(folder_.options(""));
  }
  std::vector<StoredEvent> stored() override {
    toy::ToySource source(folder_.options("outside"));
    EXPECT_TRUE(source.open());
    Batch batch;
    EXPECT_TRUE(source.read(batch, Limits{100'000, std::size_t{1} << 30, Duration{0}}, {}));
    std::vector<StoredEvent> all;
    for (const Event& event : batch.events()) all.emplace_back(event);
    return all;
  }
  void make_poison(Event& event) override { event.payload = poison_; }

 private:
  const std::string poison_ = std::string(3 << 20, 'x');
  Folder folder_;
};

class ToySourceStore final : public SourceUnderTest {
 public:
  ToySourceStore() { EXPECT_TRUE(sink_.open()); }
  SourceAbilities abilities() const override { return {}; }
  std::unique_ptr<Source> make() override {
    return std::make_unique<toy::ToySource>(folder_.options("reader"));
  }
  void publish(const NewEvent& event) override {
    const auto headers = encode_headers(event.headers);
    ASSERT_TRUE(headers);
    Event sent;
    sent.id = *event.id;
    sent.topic = event.topic;
    sent.aggregate_type = event.aggregate_type;
    sent.aggregate_id = event.aggregate_id;
    sent.type = event.type;
    sent.content_type = event.content_type;
    sent.headers = event.headers.empty() ? std::string_view() : *headers;
    sent.payload = event.payload;
    sent.aggregate_version = event.aggregate_version;
    const Event* const one = &sent;
    ASSERT_TRUE(sink_.submit({&one, 1}));
  }

 private:
  Folder folder_;
  toy::ToySink sink_{folder_.options("")};
};

template <class Base, class Made>
std::unique_ptr<Base> make() {
  return std::make_unique<Made>();
}

INSTANTIATE_TEST_SUITE_P(Toy, SinkSuite,
                         testing::Values(SinkCase{"file", make<SinkUnderTest, ToySinkStore>}),
                         case_name<SinkCase>);
INSTANTIATE_TEST_SUITE_P(Toy, SourceSuite,
                         testing::Values(SourceCase{"file", make<SourceUnderTest, ToySourceStore>}),
                         case_name<SourceCase>);

}  // namespace
}  // namespace dovetail::conformance

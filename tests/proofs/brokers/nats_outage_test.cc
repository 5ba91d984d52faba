// The NATS adapters pass the suites of outages.
#include <memory>
#include <string>
#include <vector>

#include "conformance/brokers/nats_stored.h"
#include "kit/eventually.h"
#include "nats/sink.h"
#include "nats/source.h"
#include "proofs/brokers/outage_source_suite.h"
#include "proofs/brokers/outage_suite.h"

namespace dovetail::conformance {
namespace {

class Nats final : public OutageUnderTest {
 public:
  OutageAbilities abilities() const override {
    OutageAbilities abilities;
    abilities.can_block = true;
    abilities.can_block_for_moments = false;
    return abilities;
  }
  servers::Started& server() override { return started_; }
  void begin(const std::string&) override {
    nats::Operator admin(connection(port()));
    admin.drop_stream("ORDERS");
    admin.make_stream("ORDERS", "orders");
  }
  std::unique_ptr<Sink> make_sink(int port) override {
    nats::Options options{{connection(port)}};
    return std::make_unique<nats::NatsSink>(options, system_clock());
  }
  std::vector<StoredEvent> stored() override {
    nats::Operator admin(connection(port()));
    return stored_in(admin, "ORDERS");
  }
  // Not by bytes: at such a limit this server drops the oldest message for a new one. Far above
  // the current size: a stream above its new limit loses the oldest messages, too.
  void block() override {
    nats::Operator admin(connection(port()));
    const std::int64_t most = state(admin, "messages") + 6000;
    limit(admin, most);
    EXPECT_TRUE(eventually([&] { return state(admin, "messages") >= most; }));
    EXPECT_EQ(state(admin, "first_seq"), 1)
        << "the stream grew beyond the limit before the test had set it";
  }
  void unblock() override {
    nats::Operator admin(connection(port()));
    limit(admin, -1);
  }
  std::unique_ptr<Source> make_source(int port, const std::string&) override {
    nats::Options options{{connection(port)}};
    options.stream = "ORDERS";
    options.group = "reader";
    options.long_poll = seconds(1);
    return std::make_unique<nats::NatsSource>(options, system_clock());
  }

 private:
  nats::ConnectionOptions connection(int port) {
    nats::ConnectionOptions options = nats::connection_to(started_.server());
    options.servers[0].port = static_cast<std::uint16_t>(port);
    options.connect_timeout = seconds(3);
    options.request_timeout = seconds(3);
    return options;
  }
  static std::int64_t state(nats::Operator& admin, std::string_view what) {
    return admin.ask("STREAM.INFO.ORDERS").json().get("state").get(what).number_or(0);
  }
  static void limit(nats::Operator& admin, std::int64_t messages_max) {
    admin.ask("STREAM.UPDATE.ORDERS",
              R"({"name":"ORDERS","subjects":["orders"],"storage":"file","discard":"new",)"
              R"("max_msgs":)" +
                  std::to_string(messages_max) + "}");
  }

  servers::Started started_{"nats"};
};

std::unique_ptr<OutageUnderTest> make() { return std::make_unique<Nats>(); }

INSTANTIATE_TEST_SUITE_P(Nats, OutageSuite, testing::Values(OutageCase{"nats", make}),
                         case_name<OutageCase>);
INSTANTIATE_TEST_SUITE_P(Nats, SourceOutageSuite, testing::Values(OutageCase{"nats", make}),
                         case_name<OutageCase>);

}  // namespace
}  // namespace dovetail::conformance

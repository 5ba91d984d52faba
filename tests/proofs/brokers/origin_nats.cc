#include "dovetail/nats.h"
#include "nats/sink.h"
#include "nats/test_server.h"
#include "proofs/brokers/origins.h"

namespace dovetail::live {
namespace {

class Nats final : public OriginUnderTest {
 public:
  Nats() { admin_.make_stream(stream_, "orders.events"); }
  ~Nats() override { admin_.drop_stream(stream_); }
  Result<Origin> origin() override {
    const nats::ConnectionOptions server = nats::connection_to();
    nats::ReadOptions options;
    options.servers = {{server.servers[0].host, server.servers[0].port}};
    options.user = server.user;
    options.password = server.password;
    options.stream = stream_;
    options.group = "stock";
    return nats::origin(options);
  }
  std::unique_ptr<Sink> sink() override {
    nats::Options options{{nats::connection_to()}};
    return std::make_unique<nats::NatsSink>(std::move(options), system_clock());
  }

 private:
  nats::Operator admin_;
  std::string stream_ = nats::own_name("origins");
};

}  // namespace

const OriginCase kNatsOrigin = {
    "nats", true, []() -> std::unique_ptr<OriginUnderTest> { return std::make_unique<Nats>(); }};

}  // namespace dovetail::live

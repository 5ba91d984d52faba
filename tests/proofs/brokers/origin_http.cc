#include "dovetail/http.h"
#include "host/host.h"
#include "kit/free_port.h"
#include "proofs/brokers/origins.h"
#include "webhook/sink.h"

namespace dovetail::live {
namespace {

class Http final : public OriginUnderTest {
 public:
  Result<Origin> origin() override {
    http::ReadOptions options;
    options.port = port_;
    options.token = "a token of the test";
    return http::origin(options);
  }
  std::unique_ptr<Sink> sink() override {
    http::SinkOptions options;
    options.url = "http://127.0.0.1:" + std::to_string(port_) + "/events/{topic}";
    options.password = "a token of the test";
    options.allow_private = true;
    return std::make_unique<http::HttpSink>(std::move(options), system_clock());
  }

 private:
  std::uint16_t port_ = free_port();
};

}  // namespace

const OriginCase kHttpOrigin = {
    "http", false, []() -> std::unique_ptr<OriginUnderTest> { return std::make_unique<Http>(); }};

}  // namespace dovetail::live

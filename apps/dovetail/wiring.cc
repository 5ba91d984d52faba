#include "wiring.h"

#include <unistd.h>

#include <array>
#include <optional>
#include <utility>

#include "broker_lane.h"
#include "brokers.h"
#include "core/routing.h"
#include "host/host.h"
#include "sqlite/mailbox.h"
#include "stores.h"

namespace dovetail::app {
namespace {

// The seed of the jitter: relays that fail together must not come back together.
std::uint64_t jitter_seed() {
  std::array<std::uint8_t, 8> bytes{};
  SystemEntropy().fill(bytes);
  std::uint64_t seed = 0;
  for (const std::uint8_t byte : bytes) seed = seed << 8 | byte;
  return seed;
}

class RefusedSink final : public Sink {
 public:
  explicit RefusedSink(Error why) : why_(std::move(why)) {}
  Status open() override { return fail(why_); }
  Status submit(Events) override { return fail(why_); }
  Result<bool> collect(std::span<Outcome>, Duration) override { return fail(why_); }
  bool keeps_order_on_failure() const override { return false; }

 private:
  Error why_;
};

}  // namespace

RelayOptions options_of(const ops::RelayConfig& relay) {
  RelayOptions options = relay.options;
  options.seed = jitter_seed();
  return options;
}

std::unique_ptr<Sink> make_sink(const ops::StoreConfig& to, Clock& clock) {
  if (to.is_broker()) {
    auto sink = broker_of(to)->make_sink(to, clock);
    if (!sink) return std::make_unique<RefusedSink>(sink.error());
    return std::move(*sink);
  }
  return std::make_unique<sqlite::MailboxSink>(
      sqlite::MailboxOptions{
          .path = to.path.string(), .topics = to.topics, .payload_bytes_max = to.payload_bytes_max},
      clock);
}

Result<std::unique_ptr<Lane>> make_lane(const ops::Config& config, const ops::RelayConfig& relay,
                                        Clock& clock,
                                        std::function<void(const RelayNotice&)> notify) {
  const ops::StoreConfig* from = config.find_store(relay.from);
  const ops::StoreConfig* to = config.find_store(relay.to);
  if (from == nullptr || to == nullptr) {
    return fail(Errc::rejected, "relay " + relay.name + " names a store that is not in the config");
  }
  std::optional<TopicTemplate> topics;
  if (!relay.topic.empty()) {
    auto parsed = TopicTemplate::parse(relay.topic);
    if (!parsed) return fail(parsed.error());
    topics = std::move(*parsed);
  }
  if (from->is_broker()) {
    return make_broker_lane(*broker_of(*from), *from, *to, relay, std::move(topics), clock,
                            std::move(notify));
  }
  return kind_of(*from).make_lane(*from, *to, relay, std::move(topics).value(), clock,
                                  std::move(notify));
}

std::string process_label() {
  char host[256] = "localhost";
  ::gethostname(host, sizeof host - 1);
  return std::string(host) + ":" + std::to_string(::getpid());
}

}  // namespace dovetail::app

#include "wiring.h"

#include <unistd.h>

#include <array>
#include <utility>

#include "core/routing.h"
#include "host/host.h"
#include "sqlite/lease.h"
#include "sqlite/mailbox.h"
#include "sqlite/parking.h"
#include "sqlite/reader.h"
#include "sqlite/source.h"

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

RelayOptions options_of(const ops::RelayConfig& relay) {
  RelayOptions options = relay.options;
  options.seed = jitter_seed();
  return options;
}

class SqliteLane final : public Lane {
 public:
  SqliteLane(const ops::StoreConfig& from, const ops::StoreConfig& to,
             const ops::RelayConfig& relay, TopicTemplate topics, Clock& clock,
             std::function<void(const RelayNotice&)> notify)
      : reader_{.path = from.path.string(), .name = relay.name},
        topics_(std::move(topics)),
        source_(reader_, clock),
        parking_(reader_, clock),
        lease_(reader_, clock, process_label(), boot_id(), relay.lease),
        sink_({.path = to.path.string(),
               .topics = to.topics,
               .payload_bytes_max = to.payload_bytes_max},
              clock),
        relay_(RelayPorts{.source = source_,
                          .sink = sink_,
                          .parking = parking_,
                          .lease = lease_,
                          .clock = clock,
                          .metrics = metrics_,
                          .notify = std::move(notify),
                          .topics = &topics_},
               options_of(relay)) {}

  Status run(std::stop_token stop) override { return relay_.run(stop); }
  const RelayMetrics& metrics() const override { return metrics_; }

 private:
  sqlite::Reader reader_;
  TopicTemplate topics_;
  RelayMetrics metrics_;
  sqlite::SqliteSource source_;
  sqlite::SqliteParking parking_;
  sqlite::SqliteLease lease_;
  sqlite::MailboxSink sink_;
  Relay relay_;
};

}  // namespace

Result<std::unique_ptr<Lane>> make_lane(const ops::Config& config, const ops::RelayConfig& relay,
                                        Clock& clock,
                                        std::function<void(const RelayNotice&)> notify) {
  const ops::StoreConfig* from = config.find_store(relay.from);
  const ops::StoreConfig* to = config.find_store(relay.to);
  if (from == nullptr || to == nullptr) {
    return fail(Errc::rejected, "relay " + relay.name + " names a store that is not in the config");
  }
  auto topics = TopicTemplate::parse(relay.topic);
  if (!topics) return fail(topics.error());
  return std::make_unique<SqliteLane>(*from, *to, relay, std::move(*topics), clock,
                                      std::move(notify));
}

std::string process_label() {
  char host[256] = "localhost";
  ::gethostname(host, sizeof host - 1);
  return std::string(host) + ":" + std::to_string(::getpid());
}

}  // namespace dovetail::app

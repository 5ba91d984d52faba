#include "host/host.h"
#include "proofs/inbox/feed.h"
#include "rabbitmq/source.h"

namespace dovetail::shop {

std::unique_ptr<Source> rabbitmq_source(const std::string& port, const std::string& queue) {
  rabbitmq::Options options;
  options.port = static_cast<std::uint16_t>(std::stoi(port));
  options.queues = {queue};
  options.prefetch = 200;
  return std::make_unique<rabbitmq::RabbitmqSource>(options, system_clock());
}

}  // namespace dovetail::shop

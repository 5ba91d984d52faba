#include "proofs/inbox/feed.h"

#include <sstream>
#include <vector>

namespace dovetail::shop {

std::unique_ptr<Source> broker_source(const std::string& from, [[maybe_unused]] Doom& doom) {
  std::vector<std::string> parts;
  std::istringstream text(from);
  for (std::string part; std::getline(text, part, ':');) parts.push_back(part);
#ifdef DOVETAIL_HAS_KAFKA
  if (parts.size() == 4 && parts[0] == "kafka")
    return kafka_source(parts[1], parts[2], parts[3], doom);
#endif
#ifdef DOVETAIL_HAS_RABBITMQ
  if (parts.size() == 3 && parts[0] == "rabbitmq") return rabbitmq_source(parts[1], parts[2]);
#endif
  return nullptr;
}

}  // namespace dovetail::shop

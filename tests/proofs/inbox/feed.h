// The broker that a consumer of the proofs reads.
#pragma once

#include <memory>
#include <string>

#include "core/relay/source.h"
#include "kit/dying.h"

namespace dovetail::shop {

// "kafka:PORT:TOPIC:GROUP" or "rabbitmq:PORT:QUEUE", on loopback. Null: `from` is no broker, or not
// in this build. Kafka's tells `doom` when partitions are taken away.
std::unique_ptr<Source> broker_source(const std::string& from, Doom& doom);

#ifdef DOVETAIL_HAS_KAFKA
std::unique_ptr<Source> kafka_source(const std::string& port, const std::string& topic,
                                     const std::string& group, Doom& doom);
#endif
#ifdef DOVETAIL_HAS_RABBITMQ
std::unique_ptr<Source> rabbitmq_source(const std::string& port, const std::string& queue);
#endif

}  // namespace dovetail::shop

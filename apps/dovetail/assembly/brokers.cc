#include "assembly/brokers.h"

namespace dovetail::app {
namespace {

struct Row {
  config::StoreScheme scheme;
  const BrokerKind& kind;
};

// The brokers of this binary.
constexpr Row kBrokers[] = {
#ifdef DOVETAIL_HAS_KAFKA
    {config::StoreScheme::kafka, kKafka},
#endif
#ifdef DOVETAIL_HAS_RABBITMQ
    {config::StoreScheme::rabbitmq, kRabbitmq},
#endif
#ifdef DOVETAIL_HAS_NATS
    {config::StoreScheme::nats, kNats},
#endif
#ifdef DOVETAIL_HAS_REDIS
    {config::StoreScheme::redis, kRedis},
#endif
#ifdef DOVETAIL_HAS_HTTP
    {config::StoreScheme::http, kHttp},
#endif
};

}  // namespace

const BrokerKind* broker_of(const config::StoreConfig& store) {
  for (const Row& row : kBrokers)
    if (row.scheme == store.scheme) return &row.kind;
  return nullptr;
}

}  // namespace dovetail::app

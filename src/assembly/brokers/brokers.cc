#include "assembly/brokers/brokers.h"

#include <initializer_list>

namespace dovetail::assembly {
namespace {

struct Row {
  config::StoreScheme scheme;
  const BrokerKind& kind;
};

// The brokers of this build.
constexpr std::initializer_list<Row> kBrokers = {
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

std::string_view caution_of(const config::StoreConfig& to) {
  const BrokerKind* const kind = to.is_broker() ? broker_of(to) : nullptr;
  return kind != nullptr && kind->caution != nullptr ? kind->caution(to) : std::string_view();
}

}  // namespace dovetail::assembly

#include "assembly/brokers.h"

namespace dovetail::app {

const BrokerKind* broker_of(const config::StoreConfig& store) {
  switch (store.scheme) {
#ifdef DOVETAIL_HAS_KAFKA
    case config::StoreScheme::kafka:
      return &kKafka;
#endif
#ifdef DOVETAIL_HAS_RABBITMQ
    case config::StoreScheme::rabbitmq:
      return &kRabbitmq;
#endif
#ifdef DOVETAIL_HAS_NATS
    case config::StoreScheme::nats:
      return &kNats;
#endif
#ifdef DOVETAIL_HAS_REDIS
    case config::StoreScheme::redis:
      return &kRedis;
#endif
#ifdef DOVETAIL_HAS_HTTP
    case config::StoreScheme::http:
      return &kHttp;
#endif
    default:
      return nullptr;
  }
}

}  // namespace dovetail::app

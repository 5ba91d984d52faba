#include "assembly/brokers.h"

namespace dovetail::app {

const BrokerKind* broker_of(const ops::StoreConfig& store) {
  switch (store.scheme) {
#ifdef DOVETAIL_HAS_KAFKA
    case ops::StoreScheme::kafka:
      return &kKafka;
#endif
#ifdef DOVETAIL_HAS_RABBITMQ
    case ops::StoreScheme::rabbitmq:
      return &kRabbitmq;
#endif
#ifdef DOVETAIL_HAS_NATS
    case ops::StoreScheme::nats:
      return &kNats;
#endif
#ifdef DOVETAIL_HAS_REDIS
    case ops::StoreScheme::redis:
      return &kRedis;
#endif
#ifdef DOVETAIL_HAS_HTTP
    case ops::StoreScheme::http:
      return &kHttp;
#endif
    default:
      return nullptr;
  }
}

}  // namespace dovetail::app

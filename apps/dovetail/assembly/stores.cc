#include "assembly/stores.h"

namespace dovetail::app {

const StoreKind& kind_of(const ops::StoreConfig& store) {
  if (store.is_broker()) return kBrokerStores;
  return store.scheme == ops::StoreScheme::postgres ? kPostgresStores : kSqliteStores;
}

const ops::StoreConfig& home_of(const ops::RelayConfig& relay, const ops::Config& config) {
  const ops::StoreConfig& from = *config.find_store(relay.from);
  return from.is_broker() ? *config.find_store(relay.to) : from;
}

}  // namespace dovetail::app

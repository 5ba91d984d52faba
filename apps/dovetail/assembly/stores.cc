#include "assembly/stores.h"

namespace dovetail::app {

const StoreKind& kind_of(const config::StoreConfig& store) {
  if (store.is_broker()) return kBrokerStores;
  return store.scheme == config::StoreScheme::postgres ? kPostgresStores : kSqliteStores;
}

const config::StoreConfig& home_of(const config::RelayConfig& relay, const config::Config& config) {
  const config::StoreConfig& from = *config.find_store(relay.from);
  return from.is_broker() ? *config.find_store(relay.to) : from;
}

}  // namespace dovetail::app

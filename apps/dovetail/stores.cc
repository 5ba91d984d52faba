#include "stores.h"

namespace dovetail::app {

const StoreKind& kind_of(const ops::StoreConfig& store) {
  return store.scheme == ops::StoreScheme::postgres ? kPostgresStores : kSqliteStores;
}

}  // namespace dovetail::app

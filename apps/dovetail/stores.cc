#include "stores.h"

namespace dovetail::app {

std::string_view to_string(Severity severity) {
  switch (severity) {
    case Severity::note:
      return "note";
    case Severity::warning:
      return "warning";
    case Severity::error:
      return "error";
  }
  return "error";
}

const StoreKind& kind_of(const ops::StoreConfig& store) {
  return store.scheme == ops::StoreScheme::postgres ? kPostgresStores : kSqliteStores;
}

}  // namespace dovetail::app

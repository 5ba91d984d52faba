// Stands in for stores_postgres.cc in a build without PostgreSQL: such a store is refused when the
// config file is read, and so nothing else is ever asked of it.
#include "assembly/consumer_lane.h"
#include "assembly/stores.h"

namespace dovetail::app {
namespace {

constexpr const char* kAbsent =
    "this dovetail was built without PostgreSQL; build it with DOVETAIL_POSTGRES=ON";

Status prepare(config::StoreConfig& store) {
  return fail(Errc::rejected, store.where + ": " + kAbsent);
}

}  // namespace

const StoreKind kPostgresStores = {.has_mailbox = false,
                                   .has_roles = false,
                                   .needs_maintenance = false,
                                   .prepare = prepare,
                                   .create = nullptr,
                                   .status = nullptr,
                                   .list_events = nullptr,
                                   .payload_of = nullptr,
                                   .list_parked = nullptr,
                                   .list_audit = nullptr,
                                   .replay = nullptr,
                                   .discard = nullptr,
                                   .prune = nullptr,
                                   .publish = nullptr,
                                   .examine = nullptr,
                                   .make_lane = nullptr,
                                   .make_origin_store = nullptr,
                                   .retarget = nullptr};

const InboxKind kPostgresInboxes = {
    .make_inbox = nullptr, .make_claims = nullptr, .check = nullptr};

Result<std::string> migration_sql(bool) { return fail(Errc::rejected, kAbsent); }

}  // namespace dovetail::app

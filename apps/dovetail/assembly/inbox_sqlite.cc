// Consumers whose inbox is in a SQLite file: only handlers outside its transaction, since those
// inside are functions of a service.
#include <utility>

#include "assembly/consumer_lane.h"
#include "host/host.h"
#include "sqlite/work/claims.h"

namespace dovetail::app {
namespace {

using config::ConsumerConfig;
using config::StoreConfig;

Result<std::unique_ptr<Sink>> make_inbox(const StoreConfig&, const ConsumerConfig& consumer,
                                         std::uint32_t) {
  return fail(Errc::rejected, "the consumer " + consumer.relay.name +
                                  " has a handler inside the transaction of a SQLite file, which "
                                  "only a service can have; check its handlers");
}

std::unique_ptr<ClaimStore> make_claims(const StoreConfig& store, const std::string& name,
                                        Clock& clock) {
  return std::make_unique<sqlite::SqliteClaimStore>(store.path.string(), name, clock, boot_id());
}

Status check(const StoreConfig&, const ConsumerConfig&) { return {}; }

}  // namespace

const InboxKind kSqliteInboxes = {
    .make_inbox = make_inbox, .make_claims = make_claims, .check = check};

}  // namespace dovetail::app

#include <initializer_list>

#include "assembly/database.h"
#include "core/check.h"

namespace dovetail::assembly {
namespace {

constexpr std::initializer_list<const DatabaseKind*> kKinds = {
#ifdef DOVETAIL_HAS_SQLITE
    &kSqlite,
#endif
#ifdef DOVETAIL_HAS_POSTGRES
    &kPostgres,
#endif
};

const DatabaseKind* kind_of(const config::StoreConfig& store) {
  for (const DatabaseKind* kind : kKinds)
    if (kind->scheme == store.scheme) return kind;
  return nullptr;
}

tl::unexpected<Error> no_database() {
  return fail(Errc::rejected,
              "it is a broker, which keeps no outbox and no mailbox; name a store that is a "
              "database, from which a relay carries events there");
}

}  // namespace

Status prepare_store(config::StoreConfig& store) {
  if (store.is_broker()) return prepare_broker(store);
  const DatabaseKind* const kind = kind_of(store);
  return kind != nullptr ? kind->prepare(store) : fail(built_without(store));
}

std::unique_ptr<Database> database_of(const config::StoreConfig& store) {
  if (store.is_broker()) return open_broker(store);
  const DatabaseKind* const kind = kind_of(store);
  DOVETAIL_CHECK(kind != nullptr);
  return kind->open(store);
}

Error built_without(const config::StoreConfig& store) {
  const config::StoreType& type = type_of(store.scheme);
  return {Errc::rejected, store.where + ": this dovetail was built without " +
                              std::string(type.name) + "; build it with " +
                              std::string(type.build_option) + "=ON"};
}

Result<std::string> migration_sql(bool with_roles) {
  for (const DatabaseKind* kind : kKinds)
    if (kind->migration_sql != nullptr) return kind->migration_sql(with_roles);
  return fail(Errc::rejected,
              "this dovetail was built without PostgreSQL; build it with DOVETAIL_POSTGRES=ON");
}

const config::StoreConfig& home_of(const config::RelayConfig& relay, const config::Config& config) {
  const config::StoreConfig& from = *config.find_store(relay.from);
  return from.is_broker() ? *config.find_store(relay.to) : from;
}

// The answers of a store without events.
Result<bool> Database::create(bool) { return false; }
Result<StoreStatus> Database::status() { return StoreStatus{}; }
Result<PruneReport> Database::prune(const Retention&) { return PruneReport{}; }
Result<EventId> Database::publish(const NewEvent&, const EventLimits&, std::optional<WallTime>) {
  return no_database();
}
Result<std::vector<EventRow>> Database::list_events(const EventFilter&) { return no_database(); }
Result<std::optional<std::string>> Database::payload_of(const EventId&) { return no_database(); }
Status Database::cancel(const EventId&, const std::string&) { return no_database(); }
Result<FoundEvents> Database::search_events(const EventSearch&) { return no_database(); }
Result<std::vector<AuditRow>> Database::list_audit(const AuditFilter&) {
  return std::vector<AuditRow>{};
}
Status Database::check_requests() {
  const auto usable = status();
  if (!usable) return fail(usable.error());
  return {};
}
Status Database::note_reveal(const EventId&, const std::string&) { return no_database(); }
Status Database::note_refusal(const std::string&, std::uint64_t, const std::string&) {
  return no_database();
}
Result<std::uint64_t> Database::publish_edited(const EventId&, const NewEvent&, const EventLimits&,
                                               const std::string&) {
  return no_database();
}
Result<std::vector<ParkedRow>> Database::list_parked(const ParkedFilter&) {
  return std::vector<ParkedRow>{};
}
Result<std::uint64_t> Database::replay(const std::string&, const EventId&, const std::string&) {
  return no_database();
}
Status Database::discard(const std::string&, const EventId&, const std::string&) {
  return no_database();
}
Status Database::write_hold(const std::string&, Hold, const std::string&) { return no_database(); }
Result<bool> Database::has_owner(const std::string&) { return no_database(); }
Result<SeekCounts> Database::write_seek(const std::string&, const SeekTo&, const std::string&, Hold,
                                        bool) {
  return no_database();
}
Result<std::string> Database::write_rename(const std::string&, const std::string&,
                                           const std::string&) {
  return no_database();
}
Result<std::string> Database::write_forget(const std::string&, const std::string&) {
  return no_database();
}
Result<std::string> Database::retarget(const std::string&, const std::string&, const std::string&) {
  return no_database();
}
Result<std::shared_ptr<Sink>> Database::make_inbox(const config::ConsumerConfig&, std::uint32_t) {
  return no_database();
}
Status Database::check_handlers(const config::ConsumerConfig&) { return {}; }
Result<std::uint64_t> Database::apply_event(const std::string&, const EventId&,
                                            const std::string&) {
  return no_database();
}
Result<WallTime> Database::remember_since(WallTime, const std::string&) { return no_database(); }
Result<std::uint64_t> Database::forget_event(const std::string&, const EventId&,
                                             const std::string&) {
  return no_database();
}
Result<bool> Database::deliver_again(const std::string&, const EventId&, const std::string&) {
  return false;
}
Status Database::fill_relay(const EventRow&, life::RelayFacts&) { return {}; }
Status Database::fill_times(life::OutboxFacts&) { return {}; }
Result<std::vector<life::HandlerFacts>> Database::list_handlers(const EventId&) {
  return std::vector<life::HandlerFacts>{};
}
Result<std::unique_ptr<reconcile::OutboxScan>> Database::scan_outbox(const std::string&, WallTime,
                                                                     WallTime) {
  return no_database();
}
Result<std::unique_ptr<reconcile::ReceiverScan>> Database::scan_inbox(
    const std::string&, const std::vector<std::string>&) {
  return no_database();
}
Result<std::vector<WalSlot>> Database::list_slots() { return std::vector<WalSlot>{}; }
Status Database::drop_slot(const std::string&, bool) { return no_database(); }
Result<std::vector<RequestInfo>> Database::list_requests(const RequestFilter&) {
  return no_database();
}
Result<bool> Database::forget_request(const RequestKey&, std::string_view) { return no_database(); }
Result<std::uint64_t> Database::prune_requests(std::size_t) { return no_database(); }

// The config file never leads to these calls for a broker.
std::unique_ptr<Lane> Database::make_lane(LanePlan&&, Clock&) {
  DOVETAIL_CHECK(false);
  return nullptr;
}
std::unique_ptr<Sink> Database::make_mailbox(Clock&) {
  DOVETAIL_CHECK(false);
  return nullptr;
}
std::unique_ptr<OriginStore> Database::make_origin_store(const config::RelayConfig&,
                                                         const std::string&, Clock&) {
  DOVETAIL_CHECK(false);
  return nullptr;
}
std::unique_ptr<ClaimStore> Database::make_claims(const std::string&, Clock&) {
  DOVETAIL_CHECK(false);
  return nullptr;
}
std::unique_ptr<RequestStore> Database::make_request_store(Duration) {
  DOVETAIL_CHECK(false);
  return nullptr;
}

}  // namespace dovetail::assembly

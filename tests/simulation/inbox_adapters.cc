#include "simulation/inbox_adapters.h"

#include <utility>

#include "core/inbox/forgotten.h"
#include "simulation/model_broker.h"

namespace dovetail::sim {

using std::chrono::milliseconds;

void InboxServer::rollback_later(ModelInbox::Transaction tx) {
  World& world = server.world();
  world.at(milliseconds(world.random().below(300)), [this, tx] {
    if (!tables.is_open(tx)) return;
    tables.rollback(tx);
    server.world().wake_all(changed);
  });
}

void InboxServer::client_died(const Actor& client) {
  const auto open = transactions.find(client.name());
  if (open != transactions.end()) {
    rollback_later(open->second);
    transactions.erase(open);
  }
  const auto tried = tries.find(client.name());
  if (tried == tries.end()) return;
  at_fault.insert(tried->second);
  tries.erase(tried);
}

SimInboxStore::SimInboxStore(InboxServer& database, std::string consumer, Actor& actor)
    : database_(database),
      connection_(database.server),
      consumer_(std::move(consumer)),
      actor_(actor) {}

void SimInboxStore::abandon() {
  if (tx_ != 0) database_.rollback_later(tx_);
  database_.transactions.erase(actor_.name());
  tx_ = 0;
}

Result<bool> SimInboxStore::open() {
  abandon();
  DOVETAIL_TRY(connection_.open("inbox.open"));
  return connection_.call("inbox.session", [&]() -> Result<bool> {
    return database_.tables.open_session(actor_.name());
  });
}

Status SimInboxStore::begin() {
  const Status begun = connection_.call("inbox.begin", [&]() -> Status {
    tx_ = database_.tables.begin();
    database_.transactions[actor_.name()] = tx_;
    return {};
  });
  if (!begun) abandon();
  return begun;
}

Status SimInboxStore::insert(Events events, std::span<Arrival> arrivals) {
  world().crash_point("inbox.insert", "before");
  const TimePoint until = world().now() + milliseconds(1000);
  for (std::size_t i = 0; i < events.size(); ++i) {
    const Status inserted = insert_row(*events[i], arrivals[i], until);
    if (inserted) continue;
    abandon();
    return inserted;
  }
  world().crash_point("inbox.insert", "after");
  return {};
}

Status SimInboxStore::insert_row(const Event& event, Arrival& arrival, TimePoint until) {
  auto inserted = ModelInbox::Inserted::must_wait;
  for (;;) {
    DOVETAIL_TRY(connection_.call("inbox.insert", [&]() -> Status {
      if (!database_.tables.is_open(tx_))
        return fail(Errc::unavailable, "the transaction is gone; check the server");
      inserted = database_.tables.insert(tx_, consumer_, event.id, payload_digest(event.payload));
      return {};
    }));
    if (inserted != ModelInbox::Inserted::must_wait) break;
    world().sometimes("inbox row waited for another consumer");
    if (world().now() >= until) {
      world().sometimes("deadlock of two inboxes");
      return fail(Errc::unavailable, "deadlock; trying again");
    }
    world().wait(database_.changed, until);
  }
  const bool first = inserted == ModelInbox::Inserted::first;
  const bool conflict = inserted == ModelInbox::Inserted::conflict;
  arrival = first ? Arrival::first : conflict ? Arrival::conflict : Arrival::duplicate;
  if (!first) world().sometimes("duplicate suppressed by the inbox");
  return {};
}

Status SimInboxStore::fate_of_handler(const Event& event) {
  const Options& options = world().options();
  const std::uint64_t salt = consumer_.size() * 31 + static_cast<unsigned char>(consumer_.back());
  if (!database_.service_is_up()) {
    world().sometimes("handler unavailable");
    return fail(Errc::unavailable, "a service that the handler needs is away; check it");
  }
  if (world().faults_on() && world().now() < database_.handlers_sick_until) {
    world().sometimes("sick handlers");
    return fail(Errc::failed, "a table of the handler is missing; check it");
  }
  if (world().faults_on() && in_share(event.id, options.handler_kills, salt + 3) &&
      world().chance(0.8)) {
    world().sometimes("handler ended the process");
    world().note("handler.kills", event.aggregate_id, event.aggregate_version);
    database_.at_fault.insert({consumer_, event.id});
    world().crash_now();
  }
  if (world().faults_on() && in_share(event.id, options.handler_rejects, salt + 4)) {
    world().sometimes("handler rejected");
    database_.at_fault.insert({consumer_, event.id});
    return fail(Errc::rejected, "the handler does not accept it; check the handler");
  }
  if (in_share(event.id, options.handler_fails, salt + 5) && world().fault(0.6, "handler failed")) {
    database_.at_fault.insert({consumer_, event.id});
    return fail(Errc::failed, "the handler failed; check the handler");
  }
  return {};
}

// Its broker does not hear from the member meanwhile, and may give its partitions to another.
void SimInboxStore::take_time() {
  const Options& options = world().options();
  Duration time = world().faults_on() ? options.handler_time : Duration{};
  if (time > Duration{}) world().sometimes("slow handlers");
  if (world().fault(options.slow_handler, "slow handler"))
    time += Duration(
        world().random().below(static_cast<std::uint64_t>(2 * options.lease_term.count())));
  if (time == Duration{}) return;
  struct Busy {
    std::set<std::string>& busy;
    const std::string& name;
    ~Busy() { busy.erase(name); }
  } const here{database_.in_handler, actor_.name()};
  here.busy.insert(here.name);
  world().sleep(time);
}

// When a batch took longer than it may, the next ones are smaller, except those that are submitted
// already. With a limit of very few events there are no sizes to compare.
void SimInboxStore::check_pace(std::size_t events, Duration time) {
  const Options& options = world().options();
  if (options.handler_time == Duration{} || !world().faults_on()) return;
  if (options.batch_events_max < 4) return;
  slow_batches_ = events > 1 && time > options.batch_time_max() ? slow_batches_ + 1 : 0;
  if (slow_batches_ > options.batches_in_flight_max + 1)
    world().violation("pace", "a slow handler gets batches that are too large, again and again");
}

Status SimInboxStore::apply(Events events) {
  const TimePoint began = world().now();
  for (const Event* event : events) DOVETAIL_TRY(apply_one(*event));
  check_pace(events.size(), world().now() - began);
  return {};
}

Status SimInboxStore::apply_one(const Event& event) {
  take_time();
  const Status applied = connection_.call("inbox.apply", [&]() -> Status {
    if (!database_.tables.is_open(tx_))
      return fail(Errc::unavailable, "the transaction is gone; check the server");
    if (!event.defect.empty())
      world().violation("isolation", "a handler was given what could not be read");
    DOVETAIL_TRY(fate_of_handler(event));
    database_.tables.effect(tx_, consumer_, StoredEvent(event));
    database_.tables.follow_up(tx_, event.id);
    world().note("inbox.apply", event.aggregate_id, event.aggregate_version, event.position);
    return {};
  });
  // A lost connection is not the handler's failure, and its transaction is gone either way.
  if (!applied) database_.untried.insert({consumer_, event.id});
  if (!applied && !connection_.is_up())
    return fail(Errc::unavailable, "connection lost inside the handler; check the server");
  return applied;
}

Status SimInboxStore::commit(std::uint64_t, std::uint64_t duplicates) {
  if (duplicates > 0) slow_batches_ = 0;  // they are fast, and hide how slow the handler is
  const ModelInbox::Transaction tx = std::exchange(tx_, 0);
  database_.transactions.erase(actor_.name());
  // Later effects happen at the server, whether this store still exists or not.
  InboxServer& database = database_;
  const auto commit_now = [&database, tx] {
    if (!database.tables.is_open(tx)) return false;
    database.tables.commit(tx);
    database.server.world().note("inbox.commit");
    database.server.world().wake_all(database.changed);
    return true;
  };
  if (world().fault(world().options().unknown_commit / 4, "inbox commit unknown")) {
    // The request is in flight when the connection breaks: it may still take effect, late.
    connection_.drop();
    if (world().chance(0.5)) {
      world().at(milliseconds(world().random().below(500)), [commit_now] { commit_now(); });
    }
    world().at(milliseconds(600), [&database, tx] {
      if (!database.tables.is_open(tx)) return;
      database.tables.rollback(tx);
      database.server.world().wake_all(database.changed);
    });
    return fail(Errc::in_doubt, "no reply to COMMIT; check the connection");
  }
  struct Unfinished {  // the process or the connection may end before the request arrives
    InboxServer& database;
    ModelInbox::Transaction tx;
    ~Unfinished() {
      if (database.tables.is_open(tx)) database.rollback_later(tx);
    }
  } unfinished{database_, tx};
  const Status committed = connection_.call("inbox.commit", [&]() -> Status {
    if (!commit_now()) return fail(Errc::unavailable, "the transaction is gone; check the server");
    return {};
  });
  if (committed) database_.tries.erase(actor_.name());
  return committed;
}

void SimInboxStore::rollback() {
  world().crash_point("inbox.rollback", "before");
  if (tx_ != 0 && database_.tables.is_open(tx_)) {
    database_.tables.rollback(tx_);
    world().wake_all(database_.changed);
  }
  database_.transactions.erase(actor_.name());
  tx_ = 0;
}

Result<std::uint32_t> SimInboxStore::count_attempt(const EventId& id, std::int64_t change) {
  return connection_.call("inbox.count_attempt", [&]() -> Result<std::uint32_t> {
    const std::uint32_t attempts = database_.tables.change_attempts(consumer_, id, change);
    if (change > 0) {
      database_.tries[actor_.name()] = {consumer_, id};
    } else {
      database_.tries.erase(actor_.name());
    }
    world().note("inbox.attempts", id.to_string(), change, attempts);
    return attempts;
  });
}

Status SimInboxStore::close() {
  abandon();
  return connection_.call("inbox.close", [&]() -> Status {
    database_.tables.close_session(actor_.name());
    return {};
  });
}

ConsumerParking::ConsumerParking(InboxServer& database, std::string consumer, ModelBroker& broker,
                                 const Actor& actor)
    : database_(database),
      connection_(database.server),
      consumer_(std::move(consumer)),
      broker_(broker),
      actor_(actor) {}

Status ConsumerParking::open() { return connection_.open("consumer parking.open"); }

Status ConsumerParking::blocked_keys(std::vector<OrderKey>& out, std::size_t keys_max) {
  return connection_.call("consumer parking.blocked_keys", [&]() -> Status {
    database_.tables.parked(consumer_).blocked_keys(out, keys_max);
    return {};
  });
}

Status ConsumerParking::blocked_among(std::span<const OrderKey> keys, std::vector<OrderKey>& out) {
  return connection_.call("consumer parking.blocked_among", [&]() -> Status {
    database_.tables.parked(consumer_).blocked_among(keys, out);
    return {};
  });
}

Status ConsumerParking::park(std::span<const ParkRequest> requests) {
  return connection_.call("consumer parking.park", [&]() -> Status {
    World& world = database_.server.world();
    for (const ParkRequest& request : requests) {
      const Event& event = *request.event;
      world.note("consumer parking.park", event.aggregate_id, event.aggregate_version,
                 request.state == ParkState::parked ? 1 : 0);
      world.sometimes("parked by a consumer");
      if (request.reason.empty()) world.violation("reason", "a consumer parked without a reason");
      // When the relay stops, events before confirmed ones move to parking, so that progress can be
      // recorded.
      const bool makes_way =
          world.current().stop().stop_requested() && request.state == ParkState::waiting;
      (makes_way                            ? database_.untried
       : request.state == ParkState::parked ? database_.parked
                                            : database_.waiting)
          .insert({consumer_, event.id});
    }
    database_.tables.parked(consumer_).park(requests, database_.server.wall());
    return {};
  });
}

Status ConsumerParking::take_due(Batch& out, std::vector<std::uint32_t>& attempts,
                                 const Limits& limits) {
  return connection_.call("consumer parking.take_due", [&]() -> Status {
    const auto& owner = broker_.group(consumer_).owner;
    const auto mine = [&](const StoredEvent& event) {
      const auto found = owner.find(broker_.partition_of(event));
      return found != owner.end() && found->second == actor_.name();
    };
    database_.tables.parked(consumer_).take_due(out, attempts, limits, database_.server.wall(),
                                                mine);
    return {};
  });
}

Status ConsumerParking::delivered(std::span<const EventId> ids) {
  return connection_.call("consumer parking.delivered", [&]() -> Status {
    database_.server.world().sometimes("delivered from a consumer's parking");
    database_.tables.parked(consumer_).delivered(ids);
    return {};
  });
}

}  // namespace dovetail::sim

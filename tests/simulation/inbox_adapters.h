// The ports of inbox and consumer over the model of a consumer's database.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/inbox/inbox.h"
#include "core/relay/parking.h"
#include "simulation/model_broker.h"
#include "simulation/model_inbox.h"
#include "simulation/server.h"

namespace dovetail::sim {

// The consumers' database as a server, and what the checker wants to know about it.
struct InboxServer {
  explicit InboxServer(World& world) : server(world, "inbox database") {}

  // The server notices after a while that a client is gone, and only then releases its locks.
  void rollback_later(ModelInbox::Transaction tx);
  void client_died(const Actor& client);
  bool service_is_up() { return service_down_until <= server.world().now(); }

  Server server;
  ModelInbox tables;
  WaitQueue changed;
  TimePoint service_down_until{};   // a dependency of the handlers is down
  TimePoint handlers_sick_until{};  // for example a missing table
  std::map<std::string, ModelInbox::Transaction> transactions;  // by client
  std::set<std::string> in_handler;                             // clients
  using ConsumerEvent = std::pair<std::string, EventId>;
  std::set<ConsumerEvent> at_fault;  // its handler failed, or the process died in a counted try
  std::set<ConsumerEvent> untried;   // the database or a dependency of its handler was down
  std::map<std::string, ConsumerEvent> tries;  // by client: the counted try that has not ended
  std::set<ConsumerEvent> parked;              // at any time, until an operator comes
  std::set<ConsumerEvent> waiting;             // at any time
};

class SimInboxStore final : public InboxStore {
 public:
  SimInboxStore(InboxServer& database, std::string consumer, Actor& actor);

  Result<bool> open() override;
  Status begin() override;
  Status insert(Events events, std::span<Arrival> arrivals) override;
  Status apply(Events events) override;
  Status commit(std::uint64_t applied, std::uint64_t duplicates) override;
  void rollback() override;
  Result<std::uint32_t> count_attempt(const EventId& id, std::int64_t change) override;
  Status close() override;

 private:
  Status insert_row(const Event& event, Arrival& arrival, TimePoint until);
  Status apply_one(const Event& event);
  void take_time();
  void check_pace(std::size_t events, Duration time);
  Status fate_of_handler(const Event& event);
  void abandon();
  World& world() { return database_.server.world(); }

  InboxServer& database_;
  Connection connection_;
  std::string consumer_;
  Actor& actor_;
  ModelInbox::Transaction tx_ = 0;
  std::size_t slow_batches_ = 0;  // in a row, of more than one event
};

// Members of a group share the rows; each replays the events of its own partitions.
class ConsumerParking final : public Parking {
 public:
  ConsumerParking(InboxServer& database, std::string consumer, ModelBroker& broker,
                  const Actor& actor);

  Status open() override;
  Status blocked_keys(std::vector<OrderKey>& out, std::size_t keys_max) override;
  Status blocked_among(std::span<const OrderKey> keys, std::vector<OrderKey>& out) override;
  Status park(std::span<const ParkRequest> requests) override;
  Status take_due(Batch& out, std::vector<std::uint32_t>& attempts, const Limits& limits) override;
  Status delivered(std::span<const EventId> ids) override;

 private:
  InboxServer& database_;
  Connection connection_;
  std::string consumer_;
  ModelBroker& broker_;
  const Actor& actor_;
};

}  // namespace dovetail::sim

// A model of a broker: partitioned logs. Producers append over connections that lose, delay, repeat
// and refuse; groups of consumers read with offsets.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/relay/parking.h"
#include "core/relay/sink.h"
#include "core/relay/source.h"
#include "core/sinks/confirms.h"
#include "memory/stored_event.h"
#include "simulation/database_adapters.h"
#include "simulation/server.h"

namespace dovetail::sim {

struct Message {
  std::uint64_t number;
  std::uint64_t tag;
  std::uint64_t failures_known;
  StoredEvent event;
};

// One producer's connection, as both ends see it. It lives until both have dropped it.
struct Channel {
  bool open = true;
  TimePoint last_arrival{};              // on a channel that keeps order, nothing arrives earlier
  std::uint64_t lost_from = UINT64_MAX;  // messages from this number on get lost
  std::uint64_t sent = 0;
  std::uint64_t arrived = 0;
  // How often an event of a key failed on this channel. A message sent before its sender knew of
  // the last failure is refused untried: so a channel keeps a key's order when one of its events
  // fails.
  std::map<std::uint64_t, std::uint64_t> failures;
  // Events of the sick key: how often one failed again after others were accepted.
  struct Tries {
    std::uint64_t accepted = 0;  // of other keys, at the last failure
    std::uint64_t proofs = 0;
    bool has_failed = false;
  };
  std::map<EventId, Tries> tries;
  std::uint64_t accepted = 0;
  std::uint64_t confirmed_through = 0;  // all tags up to this one are confirmed
  std::set<std::uint64_t> confirmed;
  ConfirmTracker tracker;
  std::map<std::uint64_t, std::uint64_t> failed_tags;  // tag -> key, of failures not collected yet
  std::deque<Message> under_way;                       // on a channel that keeps order
  WaitQueue replied;
};

class ModelBroker {
 public:
  struct Record {
    std::int64_t position;  // grows over the whole broker
    StoredEvent event;
  };
  struct Group {
    std::uint64_t generation = 1;
    std::map<std::string, Actor*> members;
    std::map<std::size_t, std::string> owner;  // partition -> member
    std::vector<std::size_t> committed;        // next offset, per partition
  };

  ModelBroker(World& world, std::size_t partitions);

  Server& server() { return server_; }
  World& world() { return server_.world(); }

  // Producers
  std::shared_ptr<Channel> connect(const Actor& client);
  void send(const std::shared_ptr<Channel>& channel, Message message);
  void close(Channel& channel);
  void client_died(const Actor& client);
  void block_for(Duration duration) { blocked_until_ = world().now() + duration; }
  // Fails or refuses for all keys, with healthy times in between.
  void fall_sick(Duration duration, Fate fate);
  // A relay that stopped cleanly has recorded it as delivered.
  void recorded(const EventId& id) { recorded_.insert(id); }
  // The database crashed before the record was on disk.
  void forget_recorded() { recorded_.clear(); }

  // Consumers
  Group& group(const std::string& name);
  void join(Group& group, const std::string& member, Actor& actor);
  void leave(Group& group, const std::string& member);
  void rebalance(Group& group);
  std::size_t partition_of(const StoredEvent& event) const;
  const std::vector<std::vector<Record>>& partitions() const { return partitions_; }
  WaitQueue& appended() { return appended_; }
  std::map<std::string, Group>& groups() { return groups_; }

  // Whether consumers cannot read this event as the broker sends it.
  bool is_unreadable(const EventId& id);
  // From now on the broker accepts this event, thanks to an operator.
  void mend(const EventId& id) { mended_.insert(id); }

  // For the checker
  const std::vector<StoredEvent>& history() const { return history_; }
  const std::set<EventId>& events_unreadable() const { return events_unreadable_; }
  const std::set<EventId>& events_refused() const { return events_refused_; }
  const std::set<EventId>& events_nacked() const { return events_nacked_; }
  std::uint64_t repeats_made() const { return repeats_made_; }
  std::uint64_t connects() const { return connects_; }
  bool has(const EventId& id) const { return ids_.contains(id); }

 private:
  void arrive(const std::shared_ptr<Channel>& channel, Message message);
  Outcome judge(Channel& channel, const Message& message);
  Outcome refuse(Channel& channel, const Message& message, Fate fate, const char* reason);
  Outcome refuse_blamelessly(Channel& channel, const Message& message, Fate fate,
                             const char* reason);
  Outcome refuse_sick_key(Channel& channel, const Message& message);
  bool is_of_sick_key(const StoredEvent& event);
  void append(const StoredEvent& event);
  void reply(const std::shared_ptr<Channel>& channel, std::uint64_t tag, const Outcome& outcome);
  Duration delay();

  Server server_;
  TimePoint blocked_until_{};
  TimePoint sick_until_{};
  Fate sick_fate_ = Fate::failed;
  std::set<EventId> recorded_;
  std::vector<std::vector<Record>> partitions_;
  std::vector<StoredEvent> history_;
  std::set<EventId> ids_;
  std::set<EventId> events_refused_;
  std::set<EventId> events_unreadable_;
  std::set<EventId> mended_;
  std::set<EventId> events_nacked_;
  std::uint64_t repeats_made_ = 0;
  std::uint64_t connects_ = 0;
  std::map<std::string, std::shared_ptr<Channel>> channels_;  // by client
  std::map<std::string, Group> groups_;
  WaitQueue appended_;
};

// A share of all events, chosen by id, so that all processes agree.
bool in_share(const EventId& id, double share, std::uint64_t salt);

class BrokerSink final : public Sink {
 public:
  // `lease` and `clock` are the relay's, to check whether it still may send.
  BrokerSink(ModelBroker& broker, const SimLease& lease, Clock& clock);

  // Connects in the background, like sinks with their own thread.
  Status open() override;
  Result<bool> opened(Duration timeout) override;
  Status submit(Events events) override;
  Result<bool> collect(std::span<Outcome> outcomes, Duration timeout) override;
  bool keeps_order_on_failure() const override;
  bool blocks() const override;

  // Confirmed to the relay since its session began.
  void begin_session() { confirmed_.clear(); }
  const std::set<EventId>& confirmed() const { return confirmed_; }

 private:
  void check_wait(Duration timeout);

  ModelBroker& broker_;
  const SimLease& lease_;
  TimePoint opens_at_{};
  Clock& clock_;
  Connection connection_;
  std::shared_ptr<Channel> channel_;
  struct Sent {
    std::uint64_t first;  // tag
    std::vector<EventId> ids;
  };
  std::deque<Sent> batches_;
  std::set<EventId> confirmed_;
  std::map<std::uint64_t, std::uint64_t> failures_known_;
};

class BrokerSource final : public Source {
 public:
  BrokerSource(ModelBroker& broker, std::string group, Actor& actor);

  Status open() override;
  Status read(Batch& out, const Limits& limits, std::stop_token stop) override;
  Status settle(const Batch& batch, std::span<const Settled> fates) override;
  Status flush() override;

 private:
  using Offsets = std::map<std::size_t, std::size_t>;  // partition -> next offset
  struct Read {
    std::int64_t last;
    std::size_t events;
    Offsets after;
  };
  Status read_page(Batch& out, const Limits& limits);

  ModelBroker& broker_;
  ModelBroker::Group& group_;
  Actor& actor_;
  Connection connection_;
  std::uint64_t generation_ = 0;
  Offsets next_;
  Offsets settled_;
  std::deque<Read> unsettled_;
  std::size_t unsettled_events_ = 0;
};

}  // namespace dovetail::sim

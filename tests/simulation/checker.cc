#include "simulation/checker.h"

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace dovetail::sim {
namespace {

class Checker {
 public:
  explicit Checker(Simulation& simulation) : simulation_(simulation) {
    for (const StoredEvent& change : simulation.database().tables.business_changes())
      if (!truth_.emplace(change.id, change).second)
        violation("atomicity", "one event stands for two changes: " + name(change));
  }

  void run() {
    check_atomicity();
    check_broker();
    for (const std::string& consumer : simulation_.consumers()) check_effects(consumer);
    check_isolation();
    check_bounds();
  }

 private:
  using Key = std::pair<std::string, std::string>;

  void violation(const char* rule, std::string text) {
    simulation_.world().violation(rule, std::move(text));
  }
  static std::string name(const StoredEvent& event) {
    return event.aggregate_type + "/" + event.aggregate_id + " version " +
           std::to_string(event.aggregate_version);
  }
  static Key key(const StoredEvent& event) { return {event.aggregate_type, event.aggregate_id}; }

  // Committed changes and visible outbox rows match one to one.
  void check_atomicity() {
    const ModelDatabase& tables = simulation_.database().tables;
    std::set<EventId> published;
    for (const OutboxRow& row : tables.outbox()) {
      if (!tables.visible(row, tables.snapshot())) continue;
      if (!truth_.contains(row.event.id))
        violation("atomicity", "an event without its change: " + name(row.event));
      if (!published.insert(row.event.id).second)
        violation("atomicity", "a change with two events: " + name(row.event));
    }
    for (const auto& [id, change] : truth_)
      if (!published.contains(id))
        violation("atomicity", "a change without event: " + name(change));
    std::map<Key, std::int64_t> versions;
    for (const StoredEvent& change : tables.business_changes()) {
      if (change.key_hash == 0) continue;
      if (change.aggregate_version != ++versions[key(change)])
        violation("atomicity", "versions of a row do not follow each other: " + name(change));
    }
  }

  void check_broker() {
    std::set<EventId> seen;
    std::map<Key, std::int64_t> versions;
    for (const StoredEvent& event : simulation_.broker().history()) {
      const auto change = truth_.find(event.id);
      if (change == truth_.end()) {
        violation("phantom", "published without a committed change: " + name(event));
        continue;
      }
      check_integrity(event, change->second);
      if (!simulation_.world().options().carries(event.aggregate_type))
        violation("filter", "published although the filter leaves it out: " + name(event));
      if (!seen.insert(event.id).second || event.key_hash == 0) continue;
      // A copy that was in flight when the operator discarded the event may arrive at any time.
      if (simulation_.discarded().contains(event.id)) continue;
      std::int64_t& version = versions[key(event)];
      if (event.aggregate_version <= version)
        violation("order", name(event) + " was published after version " + std::to_string(version));
      version = event.aggregate_version;
    }
    for (const auto& [id, change] : truth_)
      if (!seen.contains(id) && !simulation_.discarded().contains(id) &&
          simulation_.world().options().carries(change.aggregate_type))
        violation("loss", "never published: " + name(change));
  }

  void check_effects(const std::string& consumer) {
    std::set<EventId> seen;
    std::map<Key, std::int64_t> versions;
    for (const Effect& effect : simulation_.inbox().tables.effects()) {
      if (effect.consumer != consumer) continue;
      const StoredEvent& event = effect.event;
      const auto change = truth_.find(event.id);
      if (change == truth_.end()) {
        violation("phantom", "applied without a committed change: " + name(event));
        continue;
      }
      check_integrity(event, change->second);
      if (!seen.insert(event.id).second)
        violation("double effect", consumer + " applied twice: " + name(event));
      if (event.key_hash == 0 || simulation_.discarded().contains(event.id) ||
          simulation_.discarded_by_consumer().contains({consumer, event.id}))
        continue;
      std::int64_t& version = versions[key(event)];
      if (event.aggregate_version <= version)
        violation("effect order", consumer + " applied " + name(event) + " after version " +
                                      std::to_string(version));
      version = event.aggregate_version;
    }
    for (const StoredEvent& event : simulation_.broker().history())
      if (!seen.contains(event.id) &&
          !simulation_.discarded_by_consumer().contains({consumer, event.id}))
        violation("lost effect", consumer + " never applied: " + name(event));
  }

  void check_integrity(const StoredEvent& event, const StoredEvent& truth) {
    StoredEvent expected = truth;
    expected.position = event.position;
    if (expected.topic.empty()) expected.topic = truth.aggregate_type + ".events";
    if (!(expected == event)) violation("integrity", "changed on the way: " + name(event));
  }

  // Only an event that was refused itself may need an operator, and only events behind it may wait
  // with it.
  void check_isolation() {
    for (const EventId& id : simulation_.broker().events_refused()) at_fault_.insert({"", id});
    InboxServer& inbox = simulation_.inbox();
    at_fault_.insert(inbox.at_fault.begin(), inbox.at_fault.end());
    for (const EventId& id : simulation_.broker().events_unreadable())
      for (const std::string& consumer : simulation_.consumers()) at_fault_.insert({consumer, id});
    // If it helps other keys, events that came back untried may wait in parking, too, but never for
    // an operator.
    came_back_ = at_fault_;
    for (const EventId& id : simulation_.broker().events_nacked()) came_back_.insert({"", id});
    for (const EventId& id : simulation_.database().put_aside) came_back_.insert({"", id});
    came_back_.insert(inbox.untried.begin(), inbox.untried.end());
    for (const auto& [where, id] : came_back_) keys_that_wait_.insert({where, key(truth_[id])});

    for (const EventId& id : simulation_.database().parked) check_parked("", id);
    for (const EventId& id : simulation_.database().waiting) check_waiting("", id);
    for (const auto& [consumer, id] : inbox.parked) check_parked(consumer, id);
    for (const auto& [consumer, id] : inbox.waiting) check_waiting(consumer, id);
    if (inbox.tables.effects().size() != inbox.tables.follow_ups().size())
      violation("atomicity", "effects and what their handlers published differ in number");
  }

  void check_parked(const std::string& where, const EventId& id) {
    if (!at_fault_.contains({where, id}))
      violation("isolation", where + " parked without cause: " + name(truth_[id]));
  }

  void check_waiting(const std::string& where, const EventId& id) {
    const StoredEvent& event = truth_[id];
    const bool just = event.key_hash == 0 ? came_back_.contains({where, id})
                                          : keys_that_wait_.contains({where, key(event)});
    if (!just) violation("isolation", where + " parked behind nothing: " + name(event));
  }

  void check_bounds() {
    const ModelBroker& broker = simulation_.broker();
    const Options& options = simulation_.world().options();
    std::set<EventId> ids;
    for (const StoredEvent& event : broker.history()) ids.insert(event.id);
    const std::uint64_t duplicates = broker.history().size() - ids.size();
    const std::uint64_t window = options.window_events_max + options.batch_events_max;
    const std::uint64_t most =
        broker.repeats_made() + simulation_.disturbances() * window + simulation_.progress_lost();
    if (duplicates > most)
      violation("bounds", std::to_string(duplicates) + " duplicates, at most " +
                              std::to_string(most) + " are explained");
  }

  Simulation& simulation_;
  std::map<EventId, StoredEvent> truth_;
  // By consumer; the name is empty for the producer's side.
  std::set<std::pair<std::string, EventId>> at_fault_;
  std::set<std::pair<std::string, EventId>> came_back_;
  std::set<std::pair<std::string, Key>> keys_that_wait_;
};

}  // namespace

void check(Simulation& simulation) { Checker(simulation).run(); }

}  // namespace dovetail::sim

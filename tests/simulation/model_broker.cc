#include "simulation/model_broker.h"

#include <algorithm>
#include <utility>

namespace dovetail::sim {

using std::chrono::milliseconds;

bool in_share(const EventId& id, double share, std::uint64_t salt) {
  std::uint64_t hash = salt * 0x9e3779b97f4a7c15U;
  for (const std::uint8_t byte : id.bytes) hash = (hash ^ byte) * 1099511628211U;
  hash ^= hash >> 31;
  return static_cast<double>(hash % 100'000) < share * 100'000;
}

ModelBroker::ModelBroker(World& world, std::size_t partitions)
    : server_(world, "broker"), partitions_(partitions) {}

Duration ModelBroker::delay() {
  const auto most = static_cast<std::uint64_t>(world().options().latency_max.count());
  return Duration(1 + static_cast<Duration::rep>(world().random().below(most)));
}

std::shared_ptr<Channel> ModelBroker::connect(const Actor& client) {
  ++connects_;
  auto channel = std::make_shared<Channel>();
  channels_[client.name()] = channel;
  return channel;
}

void ModelBroker::client_died(const Actor& client) {
  const auto channel = channels_.find(client.name());
  if (channel != channels_.end()) close(*channel->second);
}

void ModelBroker::send(const std::shared_ptr<Channel>& channel, Message message) {
  if (recorded_.contains(message.event.id))
    world().violation("bounds", "sent again although a stop in good order had recorded it: " +
                                    message.event.aggregate_id + " version " +
                                    std::to_string(message.event.aggregate_version));
  Duration way = delay();
  if (world().fault(world().options().late_arrival, "late arrival"))
    way += milliseconds(100 + world().random().below(4000));
  TimePoint at = world().now() + way;
  if (world().options().sink_keeps_order) at = std::max(at, channel->last_arrival);
  channel->last_arrival = at;
  message.number = ++channel->sent;
  if (world().options().sink_keeps_order) channel->under_way.push_back(message);
  world().at(at - world().now(),
             [this, channel, message = std::move(message)] { arrive(channel, message); });
}

// The sender has closed the connection. Some messages in flight still arrive, but none after a
// message that was lost.
void ModelBroker::close(Channel& channel) {
  if (!channel.open) return;
  channel.open = false;
  const std::uint64_t under_way = channel.sent - channel.arrived;
  channel.lost_from =
      std::min(channel.lost_from, channel.arrived + 1 + world().random().below(under_way + 1));
}

void ModelBroker::arrive(const std::shared_ptr<Channel>& channel, Message message) {
  const bool in_order = world().options().sink_keeps_order;
  if (in_order) message = channel->under_way.front();
  if (server_.is_up() && message.number < channel->lost_from && world().now() < blocked_until_) {
    world().sometimes("publisher blocked");
    world().at(blocked_until_ - world().now(),
               [this, channel, message] { arrive(channel, message); });
    return;
  }
  if (in_order) channel->under_way.pop_front();
  ++channel->arrived;
  if (!server_.is_up() || message.number >= channel->lost_from) {
    // On a channel that keeps order, messages after a lost one are lost, too.
    channel->lost_from = std::min(channel->lost_from, message.number);
    world().sometimes("message lost");
    return;
  }
  if (!channel->open) world().sometimes("arrival after the connection was dropped");
  const Outcome outcome = judge(*channel, message);
  world().note(outcome.fate == Fate::confirmed   ? "broker.accepted"
               : outcome.fate == Fate::duplicate ? "broker.duplicate"
               : outcome.fate == Fate::again     ? "broker.nacked"
               : outcome.fate == Fate::failed    ? "broker.failed"
               : outcome.fate == Fate::busy      ? "broker.busy"
                                                 : "broker.rejected",
               message.event.aggregate_id, message.event.aggregate_version, message.event.position);
  if (outcome.fate == Fate::confirmed || outcome.fate == Fate::duplicate) {
    channel->confirmed.insert(message.tag);
    while (channel->confirmed.erase(channel->confirmed_through + 1) > 0)
      ++channel->confirmed_through;
  }
  if (world().fault(world().options().lost_ack, "lost ack")) return;
  reply(channel, message.tag, outcome);
  if (world().fault(world().options().repeated_confirm, "repeated confirmation"))
    reply(channel, message.tag, outcome);
}

Outcome ModelBroker::refuse(Channel& channel, const Message& message, Fate fate,
                            const char* reason) {
  ++channel.failures[message.event.key_hash];
  channel.failed_tags.emplace(message.tag, message.event.key_hash);
  (fate == Fate::again ? events_nacked_ : events_refused_).insert(message.event.id);
  return {fate, 0, reason};
}

// Not the event's fault: it may wait, but is never parked.
Outcome ModelBroker::refuse_blamelessly(Channel& channel, const Message& message, Fate fate,
                                        const char* reason) {
  ++channel.failures[message.event.key_hash];
  channel.failed_tags.emplace(message.tag, message.event.key_hash);
  events_nacked_.insert(message.event.id);
  return {fate, 0, reason};
}

void ModelBroker::fall_sick(Duration duration, Fate fate) {
  if (world().now() < sick_until_ + milliseconds(1500)) return;
  world().sometimes(fate == Fate::busy ? "full sink" : "sick sink");
  sick_until_ = world().now() + duration;
  sick_fate_ = fate;
}

bool ModelBroker::is_of_sick_key(const StoredEvent& event) {
  const std::uint64_t key = world().options().sick_key;
  return key != 0 && world().faults_on() && event.aggregate_id == "k" + std::to_string(key) &&
         !mended_.contains(event.id);
}

// A relay that knows every failure, and every confirmation in between, parks it in time.
Outcome ModelBroker::refuse_sick_key(Channel& channel, const Message& message) {
  const Options& options = world().options();
  world().sometimes(options.sick_key_is_full ? "full key" : "sick key");
  if (options.sick_key_is_full)
    return refuse_blamelessly(channel, message, Fate::busy, "its queue is full");
  Channel::Tries& tries = channel.tries[message.event.id];
  if (tries.has_failed && channel.accepted > tries.accepted) ++tries.proofs;
  tries.has_failed = true;
  tries.accepted = channel.accepted;
  if (tries.proofs > 4 * options.attempts_max + 8)
    world().violation("isolation",
                      "a sick key is tried without end: " + message.event.aggregate_id +
                          " version " + std::to_string(message.event.aggregate_version));
  return refuse(channel, message, Fate::failed, "its key is sick");
}

Outcome ModelBroker::judge(Channel& channel, const Message& message) {
  const Options& options = world().options();
  const StoredEvent& event = message.event;
  if (options.sink_keeps_order && event.key_hash != 0 &&
      channel.failures[event.key_hash] > message.failures_known) {
    world().sometimes("refused behind a failure");
    return {Fate::again, 0, "not tried: an earlier event of its key failed"};
  }
  if (world().faults_on() && world().now() < sick_until_)
    return refuse_blamelessly(channel, message, sick_fate_, "the broker refuses everything");
  if (options.sink_dedups && ids_.contains(event.id)) {
    world().sometimes("duplicate told by the broker");
    return {Fate::duplicate, 0, {}};
  }
  if (world().faults_on() && in_share(event.id, options.refuse_forever, 1) &&
      !mended_.contains(event.id)) {
    world().sometimes("refused for good");
    return refuse(channel, message, Fate::rejected, "the broker refuses this event");
  }
  if (is_of_sick_key(event)) return refuse_sick_key(channel, message);
  if (in_share(event.id, options.refuse_transient, 2) && world().fault(0.6, "refused this time"))
    return refuse(channel, message, Fate::failed, "the broker refused it this time");
  if (world().fault(options.nack, "nack")) return refuse(channel, message, Fate::again, "nacked");
  append(event);
  ++channel.accepted;
  if (world().fault(options.nack_after_effect, "nack after effect")) {
    ++repeats_made_;
    return refuse(channel, message, Fate::again, "timed out");
  }
  if (world().fault(options.duplicate, "duplicate made by the broker")) {
    ++repeats_made_;
    append(event);
  }
  return {Fate::confirmed, 0, {}};
}

std::size_t ModelBroker::partition_of(const StoredEvent& event) const {
  const std::uint64_t hash = event.key_hash != 0 ? event.key_hash : event.id.bytes[15] * 7919U;
  return hash % partitions_.size();
}

void ModelBroker::append(const StoredEvent& event) {
  auto& partition = partitions_[partition_of(event)];
  history_.push_back(event);
  ids_.insert(event.id);
  partition.push_back({static_cast<std::int64_t>(history_.size()), event});
  world().wake_all(appended_);
}

void ModelBroker::reply(const std::shared_ptr<Channel>& channel, std::uint64_t tag,
                        const Outcome& outcome) {
  // A confirmation may include all earlier ones, if these are confirmed, too.
  const bool through = channel->confirmed_through >= tag && world().chance(0.3);
  Duration takes = delay();
  if (world().fault(world().options().slow_confirm, "slow confirmation"))
    takes += Duration(world().random().below(
        2 * static_cast<std::uint64_t>(world().options().lease_term.count())));
  world().at(takes, [this, channel, tag, outcome, through] {
    if (!channel->open) return;
    if (through) {
      world().sometimes("confirmation of many at once");
      channel->tracker.resolve_through(tag, outcome);
    } else {
      channel->tracker.resolve(tag, outcome);
    }
    world().wake_all(channel->replied);
  });
}

ModelBroker::Group& ModelBroker::group(const std::string& name) {
  Group& group = groups_[name];
  group.committed.resize(partitions_.size(), 0);
  return group;
}

void ModelBroker::join(Group& group, const std::string& member, Actor& actor) {
  if (!group.members.emplace(member, &actor).second) return;
  rebalance(group);
}

void ModelBroker::leave(Group& group, const std::string& member) {
  if (group.members.erase(member) > 0) rebalance(group);
}

void ModelBroker::rebalance(Group& group) {
  ++group.generation;
  group.owner.clear();
  if (group.members.empty()) return;
  world().sometimes("rebalance");
  const std::size_t shift = world().random().below(group.members.size());
  std::vector<std::string> names;
  for (const auto& [name, actor] : group.members) names.push_back(name);
  for (std::size_t i = 0; i < partitions_.size(); ++i)
    group.owner[i] = names[(i + shift) % names.size()];
  world().wake_all(appended_);
}

BrokerSink::BrokerSink(ModelBroker& broker, const SimLease& lease, Clock& clock)
    : broker_(broker), lease_(lease), clock_(clock), connection_(broker.server()) {}

bool BrokerSink::keeps_order_on_failure() const {
  return broker_.world().options().sink_keeps_order;
}

Status BrokerSink::open() {
  if (channel_) broker_.close(*channel_);
  channel_.reset();
  batches_.clear();
  failures_known_.clear();
  World& world = broker_.world();
  opens_at_ = world.now();
  if (world.fault(world.options().slow_open, "slow open")) {
    const auto most = static_cast<std::uint64_t>(3 * world.options().lease_term.count());
    opens_at_ += Duration(world.random().below(most));
  }
  return {};
}

Result<bool> BrokerSink::opened(Duration timeout) {
  check_wait(timeout);
  World& world = broker_.world();
  const TimePoint until = std::min(opens_at_, world.now() + timeout);
  if (world.now() < until) world.sleep(until - world.now());
  if (world.now() < opens_at_) return false;
  DOVETAIL_TRY(connection_.open("sink.open"));
  channel_ = broker_.connect(world.current());
  return true;
}

// A relay that waits longer may be too late to renew its lease.
void BrokerSink::check_wait(Duration timeout) {
  World& world = broker_.world();
  if (timeout > world.options().lease_term / 3)
    world.violation("lease", "the relay waits for its sink for more than a third of its lease");
}

// Every other seed cuts batches by the time that they take.
bool BrokerSink::blocks() const { return broker_.world().options().seed % 2 == 0; }

Status BrokerSink::submit(Events events) {
  World& world = broker_.world();
  // The relay checked its lease before this call, and no time has passed since.
  if (clock_.now() >= lease_.deadline())
    world.violation("ownership", "events were sent after the lease may have run out");
  if (stops(lease_.hold()))
    world.violation("hold", "events were sent although the relay knows that it is paused");
  world.crash_point("sink.submit", "before");
  if (!channel_ || !connection_.is_up())
    return fail(Errc::unavailable, "not connected; check the broker");

  const std::uint64_t first = channel_->tracker.add_batch(events.size());
  batches_.push_back({first, {}});
  for (const Event* event : events) batches_.back().ids.push_back(event->id);
  const bool breaks = world.fault(world.options().connection_loss, "connection lost in submit");
  const std::size_t sent = breaks ? world.random().below(events.size() + 1) : events.size();
  for (std::size_t i = 0; i < sent; ++i) {
    const Event& event = *events[i];
    world.note("sink.submit", event.aggregate_id, event.aggregate_version, event.position);
    broker_.send(channel_, {0, first + i, failures_known_[event.key_hash], StoredEvent(event)});
  }
  world.sleep(Duration(10));
  world.crash_point("sink.submit", "after");
  if (!breaks) return {};
  broker_.close(*channel_);
  connection_.drop();
  return fail(Errc::in_doubt, "connection lost while sending; check the broker");
}

bool ModelBroker::is_unreadable(const EventId& id) {
  if (!world().faults_on() || !in_share(id, world().options().unreadable, 6)) return false;
  world().sometimes("message not readable");
  events_unreadable_.insert(id);
  return true;
}

Result<bool> BrokerSink::collect(std::span<Outcome> outcomes, Duration timeout) {
  World& world = broker_.world();
  check_wait(timeout);
  world.crash_point("sink.collect", "before");
  if (!channel_) return fail(Errc::unavailable, "not connected; check the broker");
  const std::shared_ptr<Channel> channel = channel_;
  world.sleep(Duration(5));
  const TimePoint until = world.now() + timeout;
  while (connection_.is_up() && !channel->tracker.oldest_is_complete() && world.now() < until)
    world.wait(channel->replied, std::min(until, world.now() + milliseconds(20)));
  if (!connection_.is_up() || world.fault(world.options().reply_loss / 4, "sink connection lost")) {
    broker_.close(*channel);
    connection_.drop();
    return fail(Errc::in_doubt, "connection lost; check the broker");
  }
  if (!channel->tracker.oldest_is_complete()) return false;
  channel->tracker.take_oldest(outcomes);
  const Sent sent = std::move(batches_.front());
  batches_.pop_front();
  for (std::size_t i = 0; i < sent.ids.size(); ++i) {
    const Fate fate = outcomes[i].fate;
    if (fate == Fate::confirmed || fate == Fate::duplicate) confirmed_.insert(sent.ids[i]);
  }
  for (std::uint64_t tag = sent.first; tag < sent.first + sent.ids.size(); ++tag) {
    const auto failed = channel->failed_tags.find(tag);
    if (failed == channel->failed_tags.end()) continue;
    ++failures_known_[failed->second];
    channel->failed_tags.erase(failed);
  }
  world.crash_point("sink.collect", "after");
  return true;
}

BrokerSource::BrokerSource(ModelBroker& broker, std::string group, Actor& actor)
    : broker_(broker), group_(broker.group(group)), actor_(actor), connection_(broker.server()) {}

Status BrokerSource::open() {
  DOVETAIL_TRY(connection_.open("consumer.open"));
  unsettled_.clear();
  unsettled_events_ = 0;
  return connection_.call("consumer.join", [&]() -> Status {
    broker_.join(group_, actor_.name(), actor_);
    generation_ = group_.generation;
    next_.clear();
    settled_.clear();
    for (const auto& [partition, owner] : group_.owner)
      if (owner == actor_.name()) next_[partition] = group_.committed[partition];
    return {};
  });
}

Status BrokerSource::read(Batch& out, const Limits& limits, std::stop_token stop) {
  World& world = broker_.world();
  const TimePoint until = world.now() + limits.wait_max;
  for (;;) {
    DOVETAIL_TRY(read_page(out, limits));
    if (!out.empty() || stop.stop_requested() || world.now() >= until) return {};
    world.wait(broker_.appended(), until);
  }
}

Status BrokerSource::read_page(Batch& out, const Limits& limits) {
  World& world = broker_.world();
  return connection_.call("consumer.read", [&]() -> Status {
    if (generation_ != group_.generation) {
      world.sometimes("partition revoked");
      return fail(Errc::unavailable, "the group was rebalanced; joining again");
    }
    std::size_t bytes = 0;
    for (auto& [partition, offset] : next_) {
      const auto& records = broker_.partitions()[partition];
      for (; offset < records.size() && out.size() < limits.events_max; ++offset) {
        bytes += records[offset].event.bytes();
        if (!out.empty() && bytes > limits.bytes_max) break;
        Event event = records[offset].event.view();
        event.position = records[offset].position;
        if (broker_.is_unreadable(event.id)) event.defect = "it cannot be read; check its producer";
        out.append(event);
      }
    }
    if (out.empty()) return {};
    world.note("consumer.read", "events, first", static_cast<std::int64_t>(out.size()),
               out.events().front().position);
    unsettled_.push_back({out.events().back().position, out.size(), next_});
    unsettled_events_ += out.size();
    if (unsettled_events_ > world.options().window_events_max)
      world.violation("bounds", "a consumer holds more events than its window");
    return {};
  });
}

Status BrokerSource::settle(const Batch& batch, std::span<const Settled>) {
  const std::int64_t last = batch.events().back().position;
  bool known = false;
  for (const Read& read : unsettled_) known = known || read.last == last;
  while (known) {
    Read read = std::move(unsettled_.front());
    unsettled_.pop_front();
    unsettled_events_ -= read.events;
    settled_ = std::move(read.after);
    known = read.last != last;
  }
  return {};
}

Status BrokerSource::flush() {
  World& world = broker_.world();
  return connection_.call("consumer.commit", [&]() -> Status {
    if (generation_ != group_.generation) {
      world.sometimes("offsets of a revoked member refused");
      return fail(Errc::stopped, "the group was rebalanced; joining again");
    }
    for (const auto& [partition, offset] : settled_) group_.committed[partition] = offset;
    return {};
  });
}

}  // namespace dovetail::sim

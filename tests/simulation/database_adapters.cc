#include "simulation/database_adapters.h"

#include <utility>

#include "core/relay/server_run.h"

namespace dovetail::sim {
namespace {

tl::unexpected<Error> stale(World& world) {
  world.sometimes("stale epoch refused");
  return fail(Errc::stopped, "the lane has another owner; check for a second relay");
}

}  // namespace

void DatabaseServer::accepted(const char* write, std::uint32_t lane, std::uint64_t epoch) {
  const LeaseRow& lease = tables.lane(lane).lease;
  if (epoch == lease.epoch) return;
  server.world().violation("ownership", std::string(write) + " of epoch " + std::to_string(epoch) +
                                            " was accepted in epoch " +
                                            std::to_string(lease.epoch));
}

void DatabaseServer::note_parked(std::span<const ParkRequest> requests, bool held) {
  // When the relay stops, events before confirmed ones move to parking, so that progress can be
  // recorded.
  const bool stops = held || server.world().current().stop().stop_requested();
  for (const ParkRequest& request : requests) {
    const bool makes_way = stops && request.state == ParkState::waiting;
    (makes_way                            ? put_aside
     : request.state == ParkState::parked ? parked
                                          : waiting)
        .insert(request.event->id);
    if (request.reason.empty())
      server.world().violation("reason", "an event was parked without a reason");
  }
}

SimLease::SimLease(DatabaseServer& database, std::uint32_t lane, std::string owner, Clock& clock)
    : database_(database),
      connection_(database.server, Route::pooled),
      lane_(lane),
      owner_(std::move(owner)),
      clock_(clock),
      term_(database.server.world().options().lease_term) {}

template <class Effect>
Status SimLease::call(std::string_view name, Effect effect) {
  if (!connection_.is_up()) DOVETAIL_TRY(connection_.open("lease.connect"));
  return connection_.call(name, effect);
}

Status SimLease::acquire() {
  World& world = database_.server.world();
  const TimePoint asked_at = clock_.now();
  std::uint64_t epoch = 0;
  Hold hold = Hold::none;
  const Status status = call("lease.acquire", [&]() -> Status {
    LeaseRow& row = database_.tables.lane(lane_).lease;
    hold = database_.tables.lane(lane_).hold;
    if (stops(hold)) return fail(Errc::unavailable, "an operator holds it; resume the relay");
    const TimePoint now = database_.server.clock();
    const std::string sign =
        std::to_string(row.epoch) + " " + std::to_string(row.expires.time_since_epoch().count());
    const bool has_run_out = lease_is_free(row, now);
    const bool is_free = watch_.is_free(sign, has_run_out, term_, clock_.now());
    if (is_free && !has_run_out) world.sometimes("lease of a silent holder taken");
    if (!is_free && has_run_out) world.sometimes("living holder left in place");
    if (!is_free && !row.owner.empty())
      return fail(Errc::unavailable, "held by " + row.owner + "; check that relay");
    if (!row.owner.empty() && row.owner != owner_) world.sometimes("lane taken over");
    row.owner = owner_;
    row.expires = now + term_;
    epoch = ++row.epoch;
    world.note("lease.acquired", owner_, lane_, static_cast<std::int64_t>(epoch));
    return {};
  });
  hold_ = hold;
  if (!status) return status;
  epoch_ = epoch;
  asked_at_ = asked_at;
  watch_ = {};  // from now on it would see our own renewals
  return {};
}

Status SimLease::renew() {
  World& world = database_.server.world();
  const TimePoint asked_at = clock_.now();
  Hold hold = Hold::none;
  const Status status = call("lease.renew", [&]() -> Status {
    LeaseRow& row = database_.tables.lane(lane_).lease;
    if (!epoch_is_current(row, epoch_)) return stale(world);
    database_.accepted("a renewal", lane_, epoch_);
    row.expires = database_.server.clock() + term_;
    hold = database_.tables.lane(lane_).hold;
    return {};
  });
  if (!status) return status;
  asked_at_ = asked_at;
  if (hold != Hold::none && hold_ != hold)
    world.sometimes(stops(hold) ? "running relay paused" : "running relay drains");
  hold_ = hold;
  return {};
}

Status SimLease::release() { return give_back(false); }
Status SimLease::release_drained() { return give_back(true); }

Status SimLease::give_back(bool drained) {
  World& world = database_.server.world();
  return call("lease.release", [&]() -> Status {
    LeaseRow& row = database_.tables.lane(lane_).lease;
    if (!epoch_is_current(row, epoch_)) return {};
    database_.accepted("a release", lane_, epoch_);
    Hold& hold = database_.tables.lane(lane_).hold;
    if (drained && hold == Hold::draining) {
      world.sometimes("relay drained");
      hold = Hold::drained;
    }
    row.owner.clear();
    row.expires = database_.server.clock();
    world.note("lease.released", owner_, lane_);
    return {};
  });
}

OutboxSource::OutboxSource(DatabaseServer& database, const SimLease& lease,
                           std::function<void(const EventId&)> on_read)
    : database_(database),
      lease_(lease),
      on_read_(std::move(on_read)),
      connection_(database.server, Route::pooled) {}

Status OutboxSource::open() {
  DOVETAIL_TRY(connection_.open("source.open"));
  unsettled_.clear();
  unsettled_events_ = unwritten_events_ = 0;
  return connection_.call("source.progress", [&]() -> Status {
    next_ = database_.tables.lane(lease_.lane()).progress;
    settled_ = next_;
    run_ = database_.tables.run();
    return {};
  });
}

Status OutboxSource::check_run() const {
  if (is_same_run(run_, database_.tables.run())) return {};
  database_.server.world().sometimes("crash noticed on a living connection");
  return fail(Errc::unavailable, "the database crashed since it was read; read it again");
}

Status OutboxSource::read(Batch& out, const Limits& limits, std::stop_token stop) {
  World& world = database_.server.world();
  if (lease_.hold() != Hold::none)
    world.violation("hold", "a relay reads although it knows that an operator holds it");
  const TimePoint until = world.now() + limits.wait_max;
  for (;;) {
    DOVETAIL_TRY(read_page(out, limits));
    if (!out.empty() || stop.stop_requested() || world.now() >= until) return {};
    world.wait(database_.changed, until);
  }
}

Status OutboxSource::read_page(Batch& out, const Limits& limits) {
  World& world = database_.server.world();
  return connection_.call("source.read", [&]() -> Status {
    DOVETAIL_TRY(check_run());
    if (!next_.now) next_.now = database_.tables.snapshot();
    std::size_t bytes = 0;
    bool exhausted = true;
    for (const OutboxRow* row : database_.tables.window(next_, *next_.now)) {
      if (lane_of(row->event.key_hash, database_.tables.lanes()) != lease_.lane()) continue;
      bytes += row->event.bytes();
      if (out.size() == limits.events_max || (!out.empty() && bytes > limits.bytes_max)) {
        exhausted = false;
        world.sometimes("window paged");
        break;
      }
      if (next_.done.running.contains(row->xid)) world.sometimes("late commit");
      out.append(row->event.view());
      on_read_(row->event.id);
      next_.seq = row->seq;
    }
    if (exhausted) next_ = Progress{*next_.now, {}, 0};
    if (out.empty()) return {};
    world.note("source.read", "events, first", static_cast<std::int64_t>(out.size()),
               out.events().front().position);
    unsettled_.push_back({out.events().back().position, out.size(), next_});
    unsettled_events_ += out.size();
    if (unsettled_events_ + unwritten_events_ > world.options().window_events_max)
      world.violation("bounds", std::to_string(unsettled_events_ + unwritten_events_) +
                                    " events are read and not durably settled, the window is " +
                                    std::to_string(world.options().window_events_max));
    return {};
  });
}

Status OutboxSource::settle(const Batch& batch, std::span<const Settled> fates) {
  World& world = database_.server.world();
  for (std::size_t i = 0; i < fates.size(); ++i) {
    const bool skipped = fates[i] == Settled::skipped;
    if (skipped) world.sometimes("event filtered");
    if (skipped == world.options().carries(batch.events()[i].aggregate_type))
      world.violation("filter", skipped ? "an event that passes the filter was skipped"
                                        : "an event was settled, but not as skipped by the filter");
  }
  const std::int64_t last = batch.events().back().position;
  bool known = false;
  for (const Read& read : unsettled_) known = known || read.last == last;
  while (known) {
    const Read read = std::move(unsettled_.front());
    unsettled_.pop_front();
    unsettled_events_ -= read.events;
    unwritten_events_ += read.events;
    settled_ = read.after;
    known = read.last != last;
  }
  return {};
}

Status OutboxSource::flush() {
  World& world = database_.server.world();
  return connection_.call("source.flush", [&]() -> Status {
    LaneRow& lane = database_.tables.lane(lease_.lane());
    if (!epoch_is_current(lane.lease, lease_.epoch())) return stale(world);
    DOVETAIL_TRY(check_run());
    database_.accepted("progress", lease_.lane(), lease_.epoch());
    lane.progress = settled_;
    unwritten_events_ = 0;
    world.note("source.flush", "xmax seq", static_cast<std::int64_t>(settled_.done.xmax),
               settled_.seq);
    return {};
  });
}

SimParking::SimParking(DatabaseServer& database, const SimLease& lease)
    : database_(database), lease_(lease), connection_(database.server, Route::pooled) {}

Status SimParking::open() { return connection_.open("parking.open"); }

Status SimParking::blocked_keys(std::vector<OrderKey>& out, std::size_t keys_max) {
  return connection_.call("parking.blocked_keys", [&]() -> Status {
    database_.tables.lane(lease_.lane()).parked.blocked_keys(out, keys_max);
    return {};
  });
}

Status SimParking::blocked_among(std::span<const OrderKey> keys, std::vector<OrderKey>& out) {
  return connection_.call("parking.blocked_among", [&]() -> Status {
    database_.tables.lane(lease_.lane()).parked.blocked_among(keys, out);
    return {};
  });
}

template <class Write>
Status SimParking::write(std::string_view name, Write write) {
  return connection_.call(name, [&]() -> Status {
    LaneRow& lane = database_.tables.lane(lease_.lane());
    if (!epoch_is_current(lane.lease, lease_.epoch())) return stale(database_.server.world());
    database_.accepted("parking", lease_.lane(), lease_.epoch());
    write(lane.parked);
    return {};
  });
}

Status SimParking::park(std::span<const ParkRequest> requests) {
  return write("parking.park", [&](ParkedRows& rows) {
    World& world = database_.server.world();
    for (const ParkRequest& request : requests) {
      world.note("parking.park", request.event->aggregate_id, request.event->aggregate_version,
                 request.state == ParkState::parked ? 1 : 0);
      world.sometimes(request.state == ParkState::parked ? "parked" : "parked behind");
      if (!request.event->has_key()) database_.parked_without_key.insert(request.event->id);
    }
    database_.note_parked(requests, lease_.hold() != Hold::none);
    rows.park(requests, database_.server.wall());
  });
}

Status SimParking::take_due(Batch& out, std::vector<std::uint32_t>& attempts,
                            const Limits& limits) {
  return connection_.call("parking.take_due", [&]() -> Status {
    const WallTime now = database_.server.wall();
    database_.tables.lane(lease_.lane()).parked.take_due(out, attempts, limits, now);
    if (!out.empty())
      database_.server.world().note("parking.take_due", "events",
                                    static_cast<std::int64_t>(out.size()));
    return {};
  });
}

Status SimParking::delivered(std::span<const EventId> ids) {
  return write("parking.delivered", [&](ParkedRows& rows) {
    database_.server.world().sometimes("delivered from parking");
    rows.delivered(ids);
  });
}

}  // namespace dovetail::sim

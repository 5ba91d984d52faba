// What one seed simulates: sizes and faults. Every seed draws its own mix, because faults that are
// all on hide each other.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/clock.h"

namespace dovetail::sim {

struct Options {
  explicit Options(std::uint64_t seed);
  std::string text() const;
  // Of a sink that blocks, as the product has it.
  Duration batch_time_max() const { return lease_term / 6; }
  // Whether anything except the sink can keep a relay from renewing its lease.
  bool may_lose_lease() const {
    return pauses || database_restarts || database_crashes || connection_loss > 0 ||
           reply_loss > 0 || lease_term < 40 * latency_max;
  }
  // Whether the relays' filter lets the event pass.
  bool carries(std::string_view aggregate_type) const {
    return !filters || aggregate_type != "customer";
  }

  std::uint64_t seed;

  // Sizes
  std::uint64_t keys = 1;
  std::uint64_t writers = 1;
  std::uint64_t transactions_per_writer = 1;
  std::uint32_t lanes = 1;
  std::uint64_t relays = 1;     // at least one per lane
  std::uint64_t consumers = 1;  // groups, each with its own inbox
  std::uint64_t members = 1;    // processes per group
  std::uint64_t partitions = 1;
  std::uint64_t batch_events_max = 1;
  std::uint64_t batch_bytes_max = 1;
  std::uint64_t batches_in_flight_max = 1;
  std::uint64_t window_events_max = 1;
  std::uint32_t attempts_max = 1;
  Duration progress_interval{};
  Duration lease_term{};
  Duration think_time{};  // of a writer, inside and between transactions
  Duration latency_max{};
  Duration faults_for{};
  std::uint64_t hot_keys = 1;     // how many keys get half of the changes
  Duration relays_start_after{};  // then they find a backlog with many events of a key
  Duration aside_after{};
  std::uint64_t blocked_keys_max = 1;
  std::uint64_t sick_key = 0;     // the broker refuses it until healed; 0: none
  bool sick_key_is_full = false;  // its receiver is full, so the key is not at fault

  // Behaviour of the broker as a sink
  bool sink_keeps_order = false;
  bool sink_dedups = false;

  // Random faults; 0: off
  double rollback = 0;
  double savepoint = 0;
  double unknown_commit = 0;
  double connection_loss = 0;
  double reply_loss = 0;
  double crash = 0;  // at one I/O boundary
  double lost_ack = 0;
  double late_arrival = 0;
  double duplicate = 0;
  double nack = 0;
  double nack_after_effect = 0;
  double repeated_confirm = 0;
  double refuse_transient = 0;  // share of events that a broker refuses sometimes
  double refuse_forever = 0;    // share of events that a broker refuses until healed
  double unreadable = 0;        // share of events that consumers cannot read until healed
  double handler_fails = 0;     // the same three for the handlers of consumers
  double handler_rejects = 0;
  double handler_kills = 0;  // share of events whose handler kills the process until healed

  double slow_open = 0;     // opening the broker's connection takes up to three leases
  double slow_confirm = 0;  // a confirmation takes up to two leases
  double slow_handler = 0;  // a handler takes up to two leases
  Duration handler_time{};  // every handler takes so long, more than a batch may

  // Faults by the nemesis
  bool kills = false;
  bool pauses = false;
  bool rolling_restarts = false;
  bool database_restarts = false;
  bool database_crashes = false;  // behind a pooler, whose clients stay connected
  bool broker_outages = false;
  bool broker_blocks = false;
  bool rebalances = false;
  bool service_outages = false;  // a dependency of handlers is down
  bool sick_sinks = false;       // the broker fails for all keys for a while
  bool full_sinks = false;       // the broker accepts nothing for a while
  bool sick_handlers = false;    // every handler fails for a while
  bool wall_steps = false;       // of the machines of relays and consumers
  bool database_steps = false;   // of the clocks of the two databases
  bool operator_replays = false;
  bool operator_discards = false;
  bool operator_holds = false;  // pauses, drains and resumes the relays
  bool filters = false;         // the relays leave events out
};

}  // namespace dovetail::sim

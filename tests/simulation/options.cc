#include "simulation/options.h"

#include <algorithm>
#include <sstream>

namespace dovetail::sim {
namespace {

using std::chrono::milliseconds;

Duration between(Random& random, milliseconds low, milliseconds high) {
  const auto span = static_cast<std::uint64_t>((high - low).count());
  return low + milliseconds(random.below(span + 1));
}

std::uint64_t between(Random& random, std::uint64_t low, std::uint64_t high) {
  return low + random.below(high - low + 1);
}

double maybe(Random& random, double highest) {
  if (random.chance(0.5)) return 0;
  return highest * (0.1 + 0.9 * static_cast<double>(random.below(1000)) / 1000.0);
}

}  // namespace

Options::Options(std::uint64_t seed_) : seed(seed_) {
  Random random(seed * 0x9e3779b97f4a7c15U + 1);
  keys = between(random, 1, 8);
  writers = between(random, 1, 4);
  transactions_per_writer = between(random, 8, 30);
  lanes = static_cast<std::uint32_t>(between(random, 1, 2));
  relays = between(random, lanes, 3);
  consumers = random.chance(0.25) ? 2 : 1;
  members = between(random, 1, 3);
  partitions = between(random, 1, 4);
  batch_events_max = between(random, 1, 12);
  batch_bytes_max = random.chance(0.3) ? between(random, 100, 600) : 100'000;
  batches_in_flight_max = between(random, 1, 4);
  window_events_max = batch_events_max * between(random, 1, 6);
  attempts_max = static_cast<std::uint32_t>(between(random, 2, 4));
  lease_term = between(random, milliseconds(400), milliseconds(2000));
  think_time = between(random, milliseconds(5), milliseconds(400));
  latency_max = between(random, milliseconds(1), milliseconds(20));
  faults_for = between(random, milliseconds(4000), milliseconds(15000));

  sink_keeps_order = random.chance(0.5);
  sink_dedups = random.chance(0.3);

  rollback = maybe(random, 0.3);
  savepoint = maybe(random, 0.3);
  unknown_commit = maybe(random, 0.2);
  connection_loss = maybe(random, 0.02);
  reply_loss = maybe(random, 0.02);
  crash = maybe(random, 0.02);
  lost_ack = maybe(random, 0.02);
  late_arrival = maybe(random, 0.05);
  duplicate = maybe(random, 0.1);
  nack = maybe(random, 0.1);
  nack_after_effect = maybe(random, 0.05);
  repeated_confirm = maybe(random, 0.3);
  refuse_transient = maybe(random, 0.15);
  refuse_forever = maybe(random, 0.08);
  handler_fails = maybe(random, 0.15);
  handler_rejects = maybe(random, 0.06);
  handler_kills = maybe(random, 0.04);

  kills = random.chance(0.5);
  pauses = random.chance(0.5);
  rolling_restarts = random.chance(0.3);
  database_restarts = random.chance(0.3);
  database_crashes = random.chance(0.3);
  broker_outages = random.chance(0.4);
  broker_blocks = random.chance(0.3);
  rebalances = random.chance(0.4);
  service_outages = random.chance(0.3);
  operator_replays = random.chance(0.6);
  operator_discards = random.chance(0.2);

  progress_interval =
      random.chance(0.5) ? Duration{} : between(random, milliseconds(0), milliseconds(300));
  unreadable = maybe(random, 0.06);
  hot_keys = random.chance(0.5) ? keys : between(random, 1, keys);
  relays_start_after =
      random.chance(0.4) ? Duration{} : between(random, milliseconds(500), milliseconds(4000));

  aside_after = between(random, milliseconds(1), milliseconds(120));
  blocked_keys_max = random.chance(0.5) ? 1000 : between(random, 1, 3);
  sick_sinks = random.chance(0.3);
  full_sinks = random.chance(0.2);
  sick_handlers = random.chance(0.3);
  sick_key = random.chance(0.3) ? between(random, 1, keys) : 0;
  sick_key_is_full = random.chance(0.3);
  slow_open = maybe(random, 0.5);
  slow_confirm = maybe(random, 0.02);
  wall_steps = random.chance(0.3);
  database_steps = random.chance(0.3);
  slow_handler = maybe(random, 0.05);
  if (slow_handler == 0 && random.chance(0.4))
    handler_time =
        lease_term / 5 + Duration(random.below(static_cast<std::uint64_t>(lease_term.count() / 8)));
  operator_holds = random.chance(0.3);
  filters = random.chance(0.2);
}

std::string Options::text() const {
  std::ostringstream out;
  out << "keys=" << keys << " writers=" << writers << "x" << transactions_per_writer
      << " lanes=" << lanes << " relays=" << relays << " consumers=" << consumers << "x" << members
      << " partitions=" << partitions << " batch=" << batch_events_max << "/" << batch_bytes_max
      << "B in_flight=" << batches_in_flight_max << " window=" << window_events_max
      << " attempts=" << attempts_max << " progress=" << progress_interval.count() / 1000
      << "ms lease=" << lease_term.count() / 1000 << "ms latency=" << latency_max.count() / 1000
      << "ms faults=" << faults_for.count() / 1000
      << "ms late=" << relays_start_after.count() / 1000 << "ms"
      << " aside=" << aside_after.count() / 1000 << "ms blocked=" << blocked_keys_max
      << (sink_keeps_order ? " sink_keeps_order" : "") << (sink_dedups ? " sink_dedups" : "")
      << "\n ";
  const auto chance = [&](const char* name, double value) {
    if (value > 0) out << " " << name << "=" << value;
  };
  chance("rollback", rollback);
  chance("savepoint", savepoint);
  chance("unknown_commit", unknown_commit);
  chance("connection_loss", connection_loss);
  chance("reply_loss", reply_loss);
  chance("crash", crash);
  chance("lost_ack", lost_ack);
  chance("late_arrival", late_arrival);
  chance("duplicate", duplicate);
  chance("nack", nack);
  chance("nack_after_effect", nack_after_effect);
  chance("repeated_confirm", repeated_confirm);
  chance("refuse_transient", refuse_transient);
  chance("refuse_forever", refuse_forever);
  chance("unreadable", unreadable);
  chance("slow_open", slow_open);
  chance("slow_confirm", slow_confirm);
  chance("slow_handler", slow_handler);
  if (handler_time > Duration{}) out << " handler_time=" << handler_time.count() / 1000 << "ms";
  chance("handler_fails", handler_fails);
  chance("handler_rejects", handler_rejects);
  chance("handler_kills", handler_kills);
  const auto flag = [&](const char* name, bool on) {
    if (on) out << " " << name;
  };
  flag("kills", kills);
  flag("pauses", pauses);
  flag("rolling_restarts", rolling_restarts);
  flag("database_restarts", database_restarts);
  flag("database_crashes", database_crashes);
  flag("broker_outages", broker_outages);
  flag("broker_blocks", broker_blocks);
  flag("rebalances", rebalances);
  flag("service_outages", service_outages);
  flag("sick_sinks", sick_sinks);
  flag("full_sinks", full_sinks);
  flag("sick_handlers", sick_handlers);
  if (sick_key > 0) out << " sick_key=" << sick_key << (sick_key_is_full ? " (full)" : "");
  flag("wall_steps", wall_steps);
  flag("database_steps", database_steps);
  flag("operator_replays", operator_replays);
  flag("operator_discards", operator_discards);
  flag("operator_holds", operator_holds);
  flag("filters", filters);
  return out.str();
}

}  // namespace dovetail::sim

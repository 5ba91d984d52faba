// Deliberate bugs for tests; the simulator must catch each of them. In every other build
// DOVETAIL_MUTANT(name) is the constant false and costs nothing.
#pragma once

#ifdef DOVETAIL_MUTANTS
#include <cstdint>

namespace dovetail {

enum class Mutant : std::uint8_t {
  none,
  settle_before_confirm,            // the source is told before the sink has confirmed
  ack_before_inbox_commit,          // the inbox says "confirmed" and commits afterwards
  no_key_block_after_refusal,       // a refused event is parked, but later ones of its key go on
  two_of_a_key_in_flight,           // on a sink that does not keep order after a failure
  inbox_row_commits_first,          // the inbox row has its own transaction, before the handler
  stale_epoch_accepted,             // a relay that has lost its lease still writes
  confirmation_counted_twice,       // a repeated confirmation counts for another event
  settle_before_park,               // the source is told before the event is durably parked
  unconfirmed_forgotten_on_reopen,  // events in flight on a broken connection are not sent again
  outage_burns_attempts,            // an unavailable handler counts as a failed attempt
  deadline_ignored,                 // publishes after its lease may have run out
  ready_not_recalled,               // ready events are sent although an earlier one came back
  parked_past_flight,               // parked while earlier events of its key are in flight
  redelivery_burns_attempts,        // an applied event counts as tried when it comes again
  outage_counts_attempts,           // failures count although no other key passes
  attempts_never_count,             // a key that fails while others pass is tried forever
  sick_sink_not_probed,             // a sick sink is never tried again
  busy_counts_attempts,             // a full receiver counts as a failure
  confirmed_resent_after_stop,      // a stop does not park failed events before confirmed ones
  asides_lose_attempts,             // an event that waits in parking loses its attempts
  blocked_keys_not_asked,           // events of blocked keys that are not in memory are sent
  open_waited_for,                  // the relay does nothing until its sink is open
  crash_not_noticed,                // a snapshot is used although the server has crashed since
  store_clock_trusted,              // only the store's clock decides when a lease ends
  far_due_waited_for,               // a pause lasts as long as the store's clock says, even a day
  slow_batches_not_cut,             // a slow handler gets batches of any size
  hold_obeyed_late,                 // reads and sends once more after an operator's order
};

inline thread_local Mutant active_mutant = Mutant::none;

}  // namespace dovetail

#define DOVETAIL_MUTANT(name) (::dovetail::active_mutant == ::dovetail::Mutant::name)
#else
#define DOVETAIL_MUTANT(name) false
#endif

// Deliberate bugs, compiled in for tests only, that the simulator must catch. In every other build
// the question DOVETAIL_MUTANT(name) is the constant false and costs nothing.
#pragma once

#ifdef DOVETAIL_MUTANTS
#include <cstdint>

namespace dovetail {

enum class Mutant : std::uint8_t {
  none,
  settle_before_confirm,            // the source is told before the sink has confirmed
  ack_before_inbox_commit,          // the inbox says "confirmed" and commits afterwards
  no_key_block_after_refusal,       // a refused event is parked, later events of its key go on
  two_of_a_key_in_flight,           // on a sink that does not keep order under failure
  inbox_row_commits_first,          // the inbox row in a transaction of its own, before the handler
  stale_epoch_accepted,             // a relay that lost its lease still writes
  confirmation_counted_twice,       // a repeated confirmation stands for another event's
  settle_before_park,               // the source is told before the event is durably parked
  unconfirmed_forgotten_on_reopen,  // what was in flight on a broken connection is not sent again
  outage_burns_attempts,            // an unavailable handler counts as a failed attempt
  deadline_ignored,                 // goes on publishing after its lease may have run out
  ready_not_recalled,               // what stands ready is sent although one before it came back
  parked_past_flight,               // parked while earlier events of its key are in flight
  redelivery_burns_attempts,        // what is applied already counts as tried when it comes again
  outage_counts_attempts,           // failures count although nobody else passes
  attempts_never_count,             // a key that fails while others pass is tried for ever
  sick_sink_not_probed,             // a sick sink is never tried again
  busy_counts_attempts,             // a full receiver counts as a failure
  confirmed_resent_after_stop,      // a stop leaves what precedes confirmed events unparked
  asides_lose_attempts,             // an event that moves aside starts from 0
  blocked_keys_not_asked,           // what is blocked and not kept in memory is sent
  open_waited_for,                  // the relay does nothing else until its sink is open
  crash_not_noticed,                // a snapshot is used although the server crashed since
  store_clock_trusted,              // a lease ends by the store's clock alone
  far_due_waited_for,               // a pause lasts as long as the store's clock says, for a day
};

inline thread_local Mutant active_mutant = Mutant::none;

}  // namespace dovetail

#define DOVETAIL_MUTANT(name) (::dovetail::active_mutant == ::dovetail::Mutant::name)
#else
#define DOVETAIL_MUTANT(name) false
#endif

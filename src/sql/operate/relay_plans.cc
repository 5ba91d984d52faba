#include "sql/operate/relay_plans.h"

#include <utility>

namespace dovetail {

namespace {

std::string events(std::uint64_t count) {
  return std::to_string(count) + (count == 1 ? " event" : " events");
}

ActionReport counts_of(const RelayStatus& relay) {
  ActionReport report;
  report.pending = relay.pending;
  report.parked = relay.parked;
  report.waiting = relay.waiting;
  return report;
}

bool is_broker(const RelayStatus& relay) { return relay.source == SourceKind::broker; }

std::string pending(const RelayStatus& relay) {
  if (is_broker(relay)) return "messages stay in the broker; it alone knows how many";
  if (!relay.is_pending_known) return "many events are pending";
  return events(relay.pending) + (relay.pending == 1 ? " is pending" : " are pending");
}

void add_waiting(ActionReport& report, const RelayStatus& relay) {
  if (relay.parked + relay.waiting == 0) return;
  report.consequences.push_back({"parked", "what is parked (" + std::to_string(relay.parked) +
                                               ") and what waits for its turn (" +
                                               std::to_string(relay.waiting) + ") stays there"});
}

void plan_pause(ActionReport& report, const RelayStatus& relay) {
  report.consequences.push_back(
      {"stops", "within seconds every process of " + quoted(relay) +
                    " finishes what is in flight, releases its lease and delivers nothing, also "
                    "after a restart"});
  report.consequences.push_back({"pending", pending(relay) + "; what comes meanwhile waits, too"});
  add_waiting(report, relay);
  if (is_broker(relay)) return;
  report.consequences.push_back(
      {"retention", "nothing that the relay has not passed is deleted, so the store grows"});
}

void plan_drain(ActionReport& report, const RelayStatus& relay) {
  report.consequences.push_back(
      {"stops", "every process of " + quoted(relay) +
                    " reads nothing new, delivers what is in flight or waits for its next try, and "
                    "then stops as drained, also after a restart"});
  report.consequences.push_back({"pending", pending(relay) + "; they stay pending"});
  if (relay.parked > 0)
    report.consequences.push_back(
        {"parked", std::to_string(relay.parked) +
                       " parked events and what waits behind them stay: they need a decision"});
}

void plan_resume(ActionReport& report, const RelayStatus& relay) {
  if (relay.hold.hold == Hold::none) return;
  report.consequences.push_back(
      {"continues", quoted(relay) + ", which was " + std::string(to_string(relay.hold.hold)) +
                        " by " + relay.hold.by + ", continues within seconds where it runs"});
  report.consequences.push_back({"pending", pending(relay) + ", to be delivered now"});
}

}  // namespace

std::string quoted(const RelayStatus& relay) { return "relay \"" + relay.name + "\""; }

bool has_order(Hold now, Hold wanted) {
  return now == wanted || (wanted == Hold::draining && now == Hold::drained);
}

ActionReport plan_hold(const RelayStatus& relay, Hold wanted) {
  ActionReport report = counts_of(relay);
  if (has_order(relay.hold.hold, wanted)) {
    const std::string now = wanted == Hold::none ? "is neither paused nor drained"
                                                 : "is " + std::string(to_string(relay.hold.hold)) +
                                                       " already, by " + relay.hold.by;
    report.consequences.push_back({"nothing", quoted(relay) + " " + now + "; nothing changes"});
    return report;
  }
  if (wanted == Hold::none) plan_resume(report, relay);
  if (wanted == Hold::paused) plan_pause(report, relay);
  if (wanted == Hold::draining) plan_drain(report, relay);
  return report;
}

Status check_seek(const RelayStatus& relay) {
  if (is_broker(relay))
    return fail(Errc::rejected,
                quoted(relay) +
                    " reads a broker, which keeps the position itself; move it there, with the "
                    "broker's own tools, while the relay is paused");
  if (relay.source == SourceKind::mapped)
    return fail(Errc::rejected,
                quoted(relay) +
                    " serves a table whose own columns say which rows are pending; change those "
                    "with SQL to send rows again or to leave them out");
  return {};
}

ActionReport plan_seek(const RelayStatus& relay, const SeekCounts& counts) {
  ActionReport report = counts_of(relay);
  report.sent_again = counts.again;
  report.skipped = counts.skipped;
  if (counts.again > 0)
    report.consequences.push_back(
        {"sent-again", events(counts.again) +
                           " that the relay has passed go out again: receivers get duplicates, and "
                           "an inbox suppresses those that it remembers"});
  if (counts.discarded > 0)
    report.consequences.push_back({"discarded", "of these, " + std::to_string(counts.discarded) +
                                                    " were discarded by an operator"});
  if (counts.skipped > 0)
    report.consequences.push_back(
        {"skipped",
         events(counts.skipped) +
             " are skipped: this relay never delivers them; they count as skipped, not delivered"});
  if (counts.again + counts.skipped == 0)
    report.consequences.push_back({"nothing", "no event is sent again or skipped"});
  add_waiting(report, relay);
  if (!stops(relay.hold.hold) && !relay.owner.empty())
    report.consequences.push_back(
        {"stops",
         "the relay is paused for that, finishes what is in flight, and continues from "
         "there; if this command dies in between, it stays paused"});
  return report;
}

Status check_rename(const RelayStatus& relay) {
  if (relay.source == SourceKind::outbox || relay.source == SourceKind::mailbox) return {};
  return fail(Errc::rejected, quoted(relay) +
                                  " cannot get another name: a broker, and the slot of a mapped "
                                  "table, know it by its name");
}

ActionReport plan_rename(const RelayStatus& relay, const std::string& new_name) {
  ActionReport report = counts_of(relay);
  report.consequences.push_back({"renamed", "progress, counts and parked events of " +
                                                quoted(relay) + " belong to \"" + new_name +
                                                "\" from then on"});
  report.consequences.push_back(
      {"config",
       "change the name in every config file before a process starts: one that starts "
       "with the old name is a new relay and sends everything that is still there"});
  return report;
}

Status check_forget(const RelayStatus& relay) {
  if (relay.parked + relay.waiting == 0) return {};
  return fail(Errc::rejected, quoted(relay) + " has " + std::to_string(relay.parked) +
                                  " parked and " + std::to_string(relay.waiting) +
                                  " waiting events, which would be lost; replay or discard them "
                                  "first: 'dovetail parked list'");
}

ActionReport plan_forget(const RelayStatus& relay) {
  ActionReport report = counts_of(relay);
  report.skipped = relay.pending;
  report.consequences.push_back(
      {"skipped", pending(relay) + ", and " + quoted(relay) + " never delivers them"});
  report.consequences.push_back({"retention", "it holds nothing back any more"});
  report.consequences.push_back(
      {"config",
       "a process that still has it in its config file makes it anew: it then begins "
       "where \"start\" says"});
  return report;
}

}  // namespace dovetail

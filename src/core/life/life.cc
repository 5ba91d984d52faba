#include "core/life/life.h"

#include <algorithm>
#include <array>

#include "core/event/time_text.h"
#include "core/relay/parking.h"

namespace dovetail::life {

namespace {

// Steps without a time come after the last one that had to happen before.
struct Placed {
  Step step;
  WallTime order{};
};

class Teller {
 public:
  explicit Teller(const Facts& facts) : facts_(facts) {}
  Life tell();

 private:
  void tell_place(const OutboxFacts& place);
  void tell_relay(const RelayFacts& relay);
  void tell_delivered(const RelayFacts& relay);
  void tell_parked(const RelayFacts& relay, const ParkedRow& row);
  void tell_message(const MessageFacts& message);
  void tell_handler(const HandlerFacts& handler);
  void tell_decision(const Decision& decision);
  void explain_relay(const RelayFacts& relay);
  void explain_handler(const HandlerFacts& handler);
  void add(std::optional<WallTime> at, WallTime order, Step step);
  void explain(std::string title, std::string text);
  WallTime committed_at() const;
  bool has_message(const RelayFacts& relay) const;
  const Delivery* delivery_of(const RelayFacts& relay) const;
  bool is_cancelled() const;
  const Unasked* hidden_outbox() const;
  std::string state() const;
  EventState known_state() const;
  std::string sentence() const;

  const Facts& facts_;
  std::vector<Placed> steps_{};
  std::vector<Line> lines_{};
};

std::string number(std::uint64_t count) { return std::to_string(count); }

std::string time_text(WallTime time) {
  std::array<char, kTimeTextBytes> text{};
  write_time(time, text.data());
  return {text.data(), text.size()};
}

std::string place_text(const std::string& topic, BrokerPlace place) {
  std::string text = topic;
  if (place.partition >= 0) text += ", partition " + std::to_string(place.partition);
  if (place.is_known())
    text += (place.partition >= 0 ? ", offset " : ", number ") + std::to_string(place.offset);
  return text;
}

std::string range_text(const PlaceRange& range) {
  std::string text = range.topic;
  if (range.partition >= 0) text += ", partition " + std::to_string(range.partition);
  text += range.partition >= 0 ? ", offset " : ", number ";
  text += std::to_string(range.first);
  if (range.last != range.first) text += " to " + std::to_string(range.last);
  return text;
}

// Where the events of one topic went; empty topic: of all.
std::string places_text(const Delivery& delivery, const std::string& topic) {
  constexpr std::size_t kShown = 8;
  if (delivery.places.empty()) return topic.empty() ? "" : ", " + topic;
  std::string text;
  std::size_t count = 0;
  std::uint64_t noted = 0;
  for (const PlaceRange& range : delivery.places) {
    noted += range.events;
    if (!topic.empty() && range.topic != topic) continue;
    if (++count <= kShown) text += ", in " + range_text(range);
  }
  if (count > kShown) text += " and " + number(count - kShown) + " more partitions";
  if (noted < delivery.events)
    text += "; where " + number(delivery.events - noted) + " of its events went is not noted";
  return text;
}

std::string key_text(const EventRow& row) { return row.aggregate_type + "/" + row.aggregate_id; }

void Teller::add(std::optional<WallTime> at, WallTime order, Step step) {
  step.at = at;
  steps_.push_back({std::move(step), order});
}

void Teller::explain(std::string title, std::string text) {
  lines_.push_back({std::move(title), std::move(text)});
}

WallTime Teller::committed_at() const {
  WallTime first = WallTime::max();
  for (const OutboxFacts& place : facts_.places)
    if (place.source != SourceKind::mailbox && place.is_dated)
      first = std::min(first, place.row.created_at);
  return first == WallTime::max() ? WallTime::min() : first;
}

void Teller::tell_place(const OutboxFacts& place) {
  const EventRow& row = place.row;
  if (place.source == SourceKind::mailbox) {
    add(std::nullopt, committed_at(),
        {.actor = place.store,
         .what = "received",
         .kind = "ok",
         .detail = "in the mailbox, position " + std::to_string(row.position)});
    return;
  }
  if (row.state == EventState::delayed) {
    add(row.created_at, row.created_at,
        {.actor = place.store,
         .what = "scheduled",
         .kind = "info",
         .detail = row.deliver_at ? "due at " + time_text(*row.deliver_at) : ""});
    return;
  }
  const std::string where =
      place.table.empty() ? "position " + std::to_string(row.position) : "table " + place.table;
  add(place.is_dated ? std::optional(row.created_at) : std::nullopt, committed_at(),
      {.actor = place.store,
       .what = "committed",
       .kind = "ok",
       .detail = where + ", " + number(row.payload_bytes) + " bytes"});
}

// Found where the relay has put it: at the broker, or in a mailbox.
bool Teller::has_message(const RelayFacts& relay) const {
  const auto is_mailbox = [&](const OutboxFacts& one) {
    return one.source == SourceKind::mailbox && one.store == relay.to;
  };
  return std::any_of(facts_.messages.begin(), facts_.messages.end(),
                     [&](const MessageFacts& one) { return one.store == relay.to; }) ||
         std::any_of(facts_.places.begin(), facts_.places.end(), is_mailbox);
}

// The broker's own answer decides between several receipts; else the last one is the likeliest.
const Delivery* Teller::delivery_of(const RelayFacts& relay) const {
  const auto has_it = [&](const PlaceRange& range) {
    return std::any_of(facts_.messages.begin(), facts_.messages.end(),
                       [&](const MessageFacts& one) {
                         return one.store == relay.to && one.topic == range.topic &&
                                one.place.partition == range.partition &&
                                one.place.offset >= range.first && one.place.offset <= range.last;
                       });
  };
  for (auto one = relay.deliveries.rbegin(); one != relay.deliveries.rend(); ++one)
    if (std::any_of(one->places.begin(), one->places.end(), has_it)) return &*one;
  return relay.deliveries.empty() ? nullptr : &relay.deliveries.back();
}

// A consumer tells of itself what it applied and when, so its receipts add nothing.
void Teller::tell_delivered(const RelayFacts& relay) {
  if (relay.is_consumer) return;
  const bool is_there = has_message(relay);
  const Delivery* const delivery = delivery_of(relay);
  if (delivery == nullptr) {
    if (is_there) return;
    add(std::nullopt, committed_at(),
        {.actor = relay.name,
         .what = "confirmed",
         .kind = "unknown",
         .detail = relay.to + " confirmed it; when and where nobody recorded"});
    return;
  }
  std::string detail = relay.to;
  if (delivery->owner.empty()) {
    add(delivery->at, delivery->at,
        {.actor = relay.name,
         .what = "confirmed",
         .kind = "ok",
         .detail = detail + "; its row says when; by which process and where nobody recorded"});
    return;
  }
  if (!is_there && relay.deliveries.size() > 1)
    detail += ", in one of " + number(relay.deliveries.size()) + " batches that end here";
  else if (!is_there)
    detail += places_text(*delivery, relay.topic);
  add(delivery->at, delivery->at,
      {.actor = relay.name,
       .what = "confirmed",
       .kind = "ok",
       .detail = detail + "; by " + delivery->owner + " with " + number(delivery->events) +
                 (delivery->events == 1 ? " event" : " events")});
}

void Teller::tell_parked(const RelayFacts& relay, const ParkedRow& row) {
  const bool is_behind = row.reason == kWaitsBehind;
  add(row.parked_at, row.parked_at,
      {.actor = relay.name,
       .what = is_behind                          ? "held back"
               : row.state == EventState::waiting ? "failed"
                                                  : "parked",
       .kind = is_behind || row.state == EventState::waiting ? "warn" : "bad",
       .detail = is_behind ? "an earlier event of its key is parked" : row.reason,
       .attempt = row.attempts});
  if (row.finished_at <= WallTime{}) return;
  const bool is_discarded = row.state == EventState::discarded;
  add(row.finished_at, row.finished_at,
      {.actor = relay.name,
       .what = is_discarded ? "discarded" : "confirmed",
       .kind = is_discarded ? "off" : "ok",
       .detail = is_discarded ? row.note : relay.to + ", from parking"});
}

void Teller::tell_relay(const RelayFacts& relay) {
  for (const ParkedRow& row : relay.parked) tell_parked(relay, row);
  const bool was_parked = !relay.parked.empty();
  if (relay.state == EventState::delivered && !was_parked) tell_delivered(relay);
  if (relay.state == EventState::skipped)
    add(std::nullopt, committed_at(),
        {.actor = relay.name,
         .what = "skipped",
         .kind = "off",
         .detail = "its filter leaves the event out, or an operator moved the relay beyond it"});
}

void Teller::tell_message(const MessageFacts& message) {
  add(message.at, message.at,
      {.actor = message.store,
       .what = "stored",
       .kind = "ok",
       .detail = place_text(message.topic, message.place)});
}

void Teller::tell_handler(const HandlerFacts& handler) {
  if (handler.applied_at) {
    const bool is_other = handler.is_same == false;
    std::string detail = handler.is_queued ? "put into its queue" : "inbox of " + handler.store;
    if (is_other) detail += "; with another payload than the outbox has";
    add(handler.applied_at, *handler.applied_at,
        {.actor = handler.name,
         .what = handler.is_queued ? "queued" : "applied",
         .kind = is_other ? "bad" : "ok",
         .detail = detail});
  }
  if (handler.attempts == 0) return;
  add(handler.tried_at, handler.tried_at.value_or(committed_at()),
      {.actor = handler.name,
       .what = handler.held_until ? "taken" : "failed",
       .kind = handler.held_until ? "info" : "warn",
       .detail = handler.held_until ? "held until " + time_text(*handler.held_until)
                                    : "it is tried again",
       .attempt = handler.attempts});
}

void Teller::tell_decision(const Decision& decision) {
  const AuditRow& row = decision.row;
  add(row.at, row.at,
      {.actor = row.who,
       .what = row.what,
       .kind = row.what == "discard" ? "off" : "info",
       .detail = (row.relay.empty() ? "" : "for " + row.relay) +
                 (row.reason.empty() ? "" : (row.relay.empty() ? "" : ": ") + row.reason)});
}

void Teller::explain_relay(const RelayFacts& relay) {
  const std::string kind = relay.is_consumer ? "[[consumer]] " : "[[relay]] ";
  if (!relay.left_out_because.empty()) {
    explain("Route", kind + relay.name + " leaves it out: " + relay.left_out_because + ".");
    return;
  }
  std::string route = kind + relay.name + ": from " + relay.from + " to " + relay.to + ".";
  if (!relay.topic.empty())
    route += " Its topic is " + relay.topic + ": " + relay.topic_because + ".";
  explain("Route", route);
  if (!relay.is_known) {
    if (relay.state) explain("Lane", relay.name + " has never run.");
    return;
  }
  explain("Lane",
          "Lane " + number(relay.lane) + " of " + number(relay.lanes) + " of " + relay.name +
              (relay.owner.empty()
                   ? "; nobody owns it: no process runs this relay."
                   : "; " + relay.owner + " owns it, epoch " + std::to_string(relay.epoch) + "."));
  for (const ParkedRow& row : relay.parked) {
    const bool is_open = row.finished_at <= WallTime{};
    if (!is_open) continue;
    if (row.reason == kWaitsBehind)
      explain("Why it waits", "An earlier event of its key is parked by " + relay.name +
                                  ". It goes out when that one is replayed or discarded.");
    else if (row.state == EventState::waiting)
      explain("Why it waits", relay.name + " failed with it " + number(row.attempts) +
                                  (row.attempts == 1 ? " time: " : " times: ") + row.reason +
                                  ". The next try is at " + time_text(row.retry_at) + ".");
    else
      explain("Why it waits", relay.name + " parked it: " + row.reason +
                                  ". Replay or discard it: dovetail parked.");
    if (relay.waiting_behind != 0)
      explain("Behind it", number(relay.waiting_behind) +
                               (relay.waiting_behind == 1 ? " later event of its key waits."
                                                          : " later events of its key wait.") +
                               " Other keys flow.");
  }
  if (relay.state != EventState::pending || !relay.parked.empty()) return;
  if (relay.said && relay.said->is_current && !relay.said->last_error.empty())
    explain("Why it waits",
            relay.name + " is " + (relay.said->state == "halted" ? "halted" : "backing off") +
                ": " + relay.said->last_error + ". No attempt is counted" +
                (relay.said->next_try ? "; the next try is at " + time_text(*relay.said->next_try)
                                      : "") +
                ".");
  else if (relay.said && relay.said->is_current && relay.said->state != "delivering")
    explain("Why it waits", relay.name + " is " + relay.said->state + ".");
  else if (relay.owner.empty())
    explain("Why it waits", "No process runs " + relay.name + ". Start it with dovetail run.");
  else
    explain("Why it waits", relay.name + " has not confirmed it yet. It goes out by itself.");
}

void Teller::explain_handler(const HandlerFacts& handler) {
  if (handler.held_until)
    explain("Handler", handler.name + " is held by a worker until " +
                           time_text(*handler.held_until) + "; then another may take it.");
  else if (!handler.applied_at && handler.attempts != 0)
    explain("Handler", handler.name + " failed " + number(handler.attempts) +
                           (handler.attempts == 1 ? " time" : " times") + " and is tried again.");
}

// Nothing else is left of an event that was cancelled before its time.
bool Teller::is_cancelled() const {
  return facts_.places.empty() &&
         std::any_of(facts_.decisions.begin(), facts_.decisions.end(),
                     [](const Decision& one) { return one.row.what == "cancel"; });
}

// The outbox that may have the event, if no outbox that was read has it. Where it has arrived since
// says nothing about what the relays of that outbox still have to do.
const Unasked* Teller::hidden_outbox() const {
  if (is_cancelled() ||
      std::any_of(facts_.places.begin(), facts_.places.end(),
                  [](const auto& one) { return one.source != SourceKind::mailbox; }))
    return nullptr;
  const auto hidden = std::find_if(facts_.unasked.begin(), facts_.unasked.end(),
                                   [](const Unasked& one) { return one.hides_events; });
  return hidden == facts_.unasked.end() ? nullptr : &*hidden;
}

std::string Teller::state() const {
  const EventState known = known_state();
  const bool is_certain = known == EventState::parked || known == EventState::waiting;
  return is_certain || hidden_outbox() == nullptr ? std::string(to_string(known)) : "unknown";
}

// What an operator has to know first.
EventState Teller::known_state() const {
  if (is_cancelled()) return EventState::discarded;
  constexpr std::array kWorst = {EventState::parked, EventState::waiting, EventState::pending,
                                 EventState::delayed, EventState::discarded};
  const auto is_in = [&](EventState state) {
    return std::any_of(facts_.relays.begin(), facts_.relays.end(),
                       [&](const RelayFacts& relay) { return relay.state == state; });
  };
  for (const EventState state : kWorst)
    if (is_in(state)) return state;
  const bool is_unread =
      std::none_of(facts_.relays.begin(), facts_.relays.end(),
                   [](const RelayFacts& relay) { return relay.state.has_value(); });
  if (is_unread && !facts_.places.empty()) return facts_.places.front().row.state;
  if (is_in(EventState::skipped) && !is_in(EventState::delivered)) return EventState::skipped;
  return EventState::delivered;
}

std::string Teller::sentence() const {
  const auto applied = static_cast<std::uint64_t>(
      std::count_if(facts_.handlers.begin(), facts_.handlers.end(),
                    [](const HandlerFacts& one) { return one.applied_at.has_value(); }));
  const std::string by = applied == 0   ? ""
                         : applied == 1 ? " One handler has applied it."
                                        : " " + number(applied) + " handlers have applied it.";
  for (const RelayFacts& relay : facts_.relays) {
    if (relay.state == EventState::parked)
      return "It is parked by " + relay.name + " and waits for a decision." + by;
    if (relay.state == EventState::waiting)
      return "It waits for " + relay.name + ", for its next try or behind an event of its key." +
             by;
  }
  if (const Unasked* const hidden = hidden_outbox()) {
    std::string text =
        "What became of it is unknown: the outbox of " + hidden->store + " could not be read.";
    for (const RelayFacts& relay : facts_.relays)
      if (relay.state == EventState::pending)
        text += " It has arrived in " + relay.from + ", and " + relay.name + " has not " +
                (relay.is_consumer ? "applied" : "delivered") + " it yet.";
    return text + by;
  }
  switch (known_state()) {
    case EventState::pending:
      return "It is committed and not delivered yet." + by;
    case EventState::delayed:
      return "It waits for its time.";
    case EventState::discarded:
      if (is_cancelled()) return "An operator has cancelled it before its time.";
      return "An operator has given it up." + by;
    case EventState::skipped:
      return "It is skipped: no relay carries it." + by;
    case EventState::delivered:
    case EventState::parked:
    case EventState::waiting:
      break;
  }
  const bool is_read = std::any_of(facts_.relays.begin(), facts_.relays.end(),
                                   [](const RelayFacts& one) { return one.state.has_value(); });
  return (is_read ? "It is delivered." : "Its outbox no longer has it.") + by;
}

Life Teller::tell() {
  for (const OutboxFacts& place : facts_.places) tell_place(place);
  for (const RelayFacts& relay : facts_.relays) tell_relay(relay);
  for (const MessageFacts& message : facts_.messages) tell_message(message);
  for (const HandlerFacts& handler : facts_.handlers) tell_handler(handler);
  for (const Decision& decision : facts_.decisions) tell_decision(decision);
  std::stable_sort(steps_.begin(), steps_.end(), [](const Placed& a, const Placed& b) {
    return a.order != b.order ? a.order < b.order : a.step.at && !b.step.at;
  });
  if (!facts_.places.empty()) {
    const EventRow& row = facts_.places.front().row;
    if (!row.aggregate_id.empty())
      explain("Order", "Its key is " + key_text(row) +
                           ". Events of one key are delivered in the order of their commits.");
  }
  for (const RelayFacts& relay : facts_.relays) explain_relay(relay);
  for (const HandlerFacts& handler : facts_.handlers) explain_handler(handler);
  if (facts_.relays.empty() && !facts_.places.empty())
    explain("Route", "No relay and no consumer of the config file reads " +
                         facts_.places.front().store + ".");
  for (const Unasked& one : facts_.unasked) explain("Not asked", one.store + ": " + one.why);
  Life life;
  life.state = state();
  life.sentence = sentence();
  for (Placed& placed : steps_) life.steps.push_back(std::move(placed.step));
  life.explain = std::move(lines_);
  return life;
}

}  // namespace

bool is_found(const Facts& facts) {
  const auto has_parked = [](const RelayFacts& relay) { return !relay.parked.empty(); };
  return !facts.places.empty() || !facts.messages.empty() || !facts.handlers.empty() ||
         !facts.decisions.empty() ||
         std::any_of(facts.relays.begin(), facts.relays.end(), has_parked);
}

Life life_of(const Facts& facts) { return Teller(facts).tell(); }

}  // namespace dovetail::life

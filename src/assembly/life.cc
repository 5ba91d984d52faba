#include "assembly/life.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "assembly/brokers/brokers.h"
#include "assembly/consumer_lane.h"
#include "assembly/database.h"
#include "core/event/batch.h"
#include "core/event/type_filter.h"
#include "core/inbox/forgotten.h"
#include "core/message/routing.h"
#include "host/host.h"

namespace dovetail::assembly {

namespace {

using config::Config;
using config::ConsumerConfig;
using config::RelayConfig;
using config::StoreConfig;
using life::Facts;
using life::RelayFacts;

// How many later events of a key are counted.
constexpr std::size_t kBehindMax = 1000;

class Gathering {
 public:
  Gathering(const Config& config, const EventId& id, Duration each_broker_max)
      : config_(config), each_broker_max_(each_broker_max) {
    facts_.id = id;
  }

  Result<Facts> run();

 private:
  void ask(const StoreConfig& store);
  Status ask_for_events(const StoreConfig& store, Database& database);
  Status ask_for_decisions(const StoreConfig& store, Database& database);
  Status ask_for_handlers(const StoreConfig& store, Database& database);
  Status ask_for_rows(const StoreConfig& store, Database& database, SourceKind source);
  Status ask_for_parked(const StoreConfig& store, Database& database);
  void list_relays();
  void add_relay(const RelayConfig& relay, const ConsumerConfig* consumer);
  void add_unknown_relays();
  void route(const RelayConfig& relay, const ConsumerConfig* consumer, RelayFacts& facts) const;
  Status fill(RelayFacts& relay);
  void ask_brokers();
  Result<std::string> ask_broker(const StoreConfig& store, const RelayFacts& relay);
  void compare_payload();
  const EventRow* row_in(const std::string& store, const std::string& relay) const;
  const EventRow* any_row() const;

  struct Seen {
    std::string store;
    SourceKind source;
    EventRow row;
  };
  struct Kept {
    std::string store;
    ParkedRow row;
  };

  const Config& config_;
  const Duration each_broker_max_;
  Facts facts_{};
  std::vector<Seen> seen_{};  // one for each relay that reads it
  std::vector<Kept> kept_{};
  std::size_t asked_ = 0;
  std::optional<Error> error_{};
};

// A login that may not read one table may still read the others.
void Gathering::ask(const StoreConfig& store) {
  using Question = Status (Gathering::*)(const StoreConfig&, Database&);
  constexpr Question kEvents = &Gathering::ask_for_events;
  constexpr Question kQuestions[] = {kEvents, &Gathering::ask_for_parked,
                                     &Gathering::ask_for_decisions, &Gathering::ask_for_handlers};
  const std::unique_ptr<Database> database = database_of(store);
  bool has_answered = false;
  std::string last_why;
  for (const Question question : kQuestions) {
    const Status asked = store.unusable.empty() ? (this->*question)(store, *database)
                                                : fail(Errc::unavailable, store.unusable);
    has_answered = has_answered || asked;
    if (asked) continue;
    error_ = asked.error();
    if (asked.error().text != last_why)
      facts_.unasked.push_back({store.name, asked.error().text, question == kEvents});
    last_why = asked.error().text;
    if (asked.error().code == Errc::unavailable) break;
  }
  if (has_answered) ++asked_;
}

Status Gathering::ask_for_events(const StoreConfig& store, Database& database) {
  DOVETAIL_TRY(ask_for_rows(store, database, SourceKind::outbox));
  if (store.type().has_mailbox) DOVETAIL_TRY(ask_for_rows(store, database, SourceKind::mailbox));
  return {};
}

Status Gathering::ask_for_decisions(const StoreConfig& store, Database& database) {
  const auto audit = database.list_audit({.subject = facts_.id.to_string()});
  if (!audit) return fail(audit.error());
  for (const AuditRow& row : *audit) facts_.decisions.push_back({store.name, row});
  return {};
}

Status Gathering::ask_for_handlers(const StoreConfig& store, Database& database) {
  auto handlers = database.list_handlers(facts_.id);
  if (!handlers) return fail(handlers.error());
  for (life::HandlerFacts& handler : *handlers) {
    handler.store = store.name;
    facts_.handlers.push_back(std::move(handler));
  }
  return {};
}

std::string shown_table(const config::TableConfig& table) {
  return table.name.empty() ? "of the preset " + table.preset : table.name;
}

Status Gathering::ask_for_rows(const StoreConfig& store, Database& database, SourceKind source) {
  EventFilter filter;
  filter.source = source;
  filter.id = facts_.id.to_string();
  auto rows = database.list_events(filter);
  if (!rows) return fail(rows.error());
  if (rows->empty() && source == SourceKind::outbox) {
    filter.state = EventState::delayed;
    if (store.type().has_delayed_events) rows = database.list_events(filter);
    if (!rows) return fail(rows.error());
  }
  if (rows->empty()) return {};
  life::OutboxFacts& place = facts_.places.emplace_back();
  place = {store.name, source, rows->front()};
  for (EventRow& row : *rows) seen_.push_back({store.name, source, std::move(row)});
  const auto table = store.tables.find(place.row.relay);
  if (source != SourceKind::outbox || table == store.tables.end()) return {};
  place.table = shown_table(table->second);
  return database.fill_times(place);
}

Status Gathering::ask_for_parked(const StoreConfig& store, Database& database) {
  ParkedFilter filter;
  filter.id = facts_.id.to_string();
  filter.with_finished = true;
  auto rows = database.list_parked(filter);
  if (!rows) return fail(rows.error());
  for (ParkedRow& row : *rows) kept_.push_back({store.name, std::move(row)});
  return {};
}

const EventRow* Gathering::row_in(const std::string& store, const std::string& relay) const {
  const EventRow* any = nullptr;
  for (const Seen& seen : seen_) {
    if (seen.store != store) continue;
    if (seen.row.relay == relay) return &seen.row;
    any = &seen.row;
  }
  return any;
}

const EventRow* Gathering::any_row() const { return seen_.empty() ? nullptr : &seen_.front().row; }

Event event_of(const EventRow& row) {
  Event event;
  event.id = row.id;
  event.topic = row.topic;
  event.aggregate_type = row.aggregate_type;
  event.aggregate_id = row.aggregate_id;
  event.type = row.type;
  event.content_type = row.content_type;
  event.headers = row.headers;
  event.aggregate_version = row.aggregate_version;
  event.created_at = row.created_at;
  return event;
}

void Gathering::route(const RelayConfig& relay, const ConsumerConfig* consumer,
                      RelayFacts& facts) const {
  const EventRow* const row = any_row();
  if (row == nullptr) return;
  facts.topic = row->topic;
  facts.topic_because = "the publisher set it";
  const Result<TopicTemplate> topics = TopicTemplate::parse(relay.topic);
  if (row->topic.empty() && !relay.topic.empty() && topics) {
    Arena arena;
    facts.topic = std::string(topics->route(event_of(*row), arena));
    facts.topic_because = "the publisher set none, so the template " + relay.topic + " decides";
  }
  if (!relay.options.filter.accepts(event_of(*row)))
    facts.left_out_because = "it does not pass its filter " + relay.options.filter.json();
  if (consumer == nullptr) return;
  const std::vector<std::string>& wanted = consumer->topics;
  if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), facts.topic) == wanted.end())
    facts.left_out_because = "its topics do not have " + facts.topic;
  const bool is_wanted = std::any_of(
      consumer->handlers.begin(), consumer->handlers.end(),
      [&](const config::HandlerConfig& one) { return wants_type(one.types, row->type); });
  if (!is_wanted) facts.left_out_because = "no handler of it wants the type " + row->type;
}

Status Gathering::fill(RelayFacts& relay) {
  const StoreConfig* const from = config_.find_store(relay.from);
  if (from == nullptr || from->is_broker()) return {};
  const EventRow* const row = row_in(relay.from, relay.name);
  if (row == nullptr) return {};
  for (const life::OutboxFacts& place : facts_.places)
    if (place.store == relay.from && place.row.relay == relay.name)
      relay.marked_at = place.marked_at;
  const std::unique_ptr<Database> database = database_of(*from);
  DOVETAIL_TRY(database->fill_relay(*row, relay));
  const bool is_in_the_way =
      std::any_of(relay.parked.begin(), relay.parked.end(),
                  [](const ParkedRow& one) { return one.finished_at <= WallTime{} && one.head; });
  if (!is_in_the_way || row->aggregate_id.empty()) return {};
  ParkedFilter behind;
  behind.relay = relay.name;
  behind.aggregate_type = row->aggregate_type;
  behind.key = row->aggregate_id;
  behind.limit = kBehindMax;
  const auto rows = database->list_parked(behind);
  if (!rows) return fail(rows.error());
  relay.waiting_behind = rows->empty() ? 0 : rows->size() - 1;
  return {};
}

void Gathering::add_relay(const RelayConfig& relay, const ConsumerConfig* consumer) {
  RelayFacts facts;
  facts.name = relay.name;
  facts.from = relay.from;
  facts.to = relay.to;
  facts.is_consumer = consumer != nullptr;
  const StoreConfig& from = *config_.find_store(relay.from);
  const SourceKind source = consumer == nullptr ? SourceKind::outbox : consumer->source;
  // A relay that reads a table of the application reads nothing else.
  const auto table_of = [&](const std::string& name) {
    return from.tables.contains(name) ? name : std::string();
  };
  bool is_read = false;
  for (const Seen& seen : seen_) {
    if (seen.store != relay.from || seen.source != source) continue;
    if (table_of(relay.name) != table_of(seen.row.relay)) continue;
    is_read = true;
    if (seen.row.relay == relay.name) facts.state = seen.row.state;
    if (seen.row.relay.empty() && seen.row.state != EventState::delayed)
      facts.state = EventState::pending;
  }
  // Behind a broker: the event comes there by another relay.
  const bool is_behind =
      from.is_broker() && std::any_of(facts_.relays.begin(), facts_.relays.end(),
                                      [&](const RelayFacts& one) { return one.to == relay.from; });
  for (const Kept& kept : kept_)
    if (kept.row.relay == relay.name) facts.parked.push_back(kept.row);
  if (!is_read && !is_behind && facts.parked.empty()) return;
  for (const ParkedRow& row : facts.parked)
    if (row.finished_at <= WallTime{}) facts.state = row.state;
  route(relay, consumer, facts);
  if (!facts.left_out_because.empty() && facts.state != EventState::parked) facts.state.reset();
  if (const Status filled = fill(facts); !filled)
    facts_.unasked.push_back({relay.from, filled.error().text});
  facts_.relays.push_back(std::move(facts));
}

void Gathering::list_relays() {
  for (const RelayConfig& relay : config_.relays) add_relay(relay, nullptr);
  for (const ConsumerConfig& consumer : config_.consumers) add_relay(consumer.relay, &consumer);
  add_unknown_relays();
}

// Services run relays and consumers that the config file does not name.
void Gathering::add_unknown_relays() {
  const auto is_listed = [this](const std::string& name) {
    return std::any_of(facts_.relays.begin(), facts_.relays.end(),
                       [&](const RelayFacts& one) { return one.name == name; });
  };
  for (const Seen& seen : seen_) {
    if (seen.row.relay.empty() || is_listed(seen.row.relay)) continue;
    RelayFacts facts;
    facts.name = seen.row.relay;
    facts.from = seen.store;
    facts.to = "a place that the config file does not name";
    facts.state = seen.row.state;
    for (const Kept& kept : kept_)
      if (kept.row.relay == facts.name) facts.parked.push_back(kept.row);
    if (const Status filled = fill(facts); !filled)
      facts_.unasked.push_back({seen.store, filled.error().text});
    facts_.relays.push_back(std::move(facts));
  }
}

// Where a relay noted that the events of the topic went, the latest first; empty topic: of all.
std::vector<PlaceRange> places_of(const RelayFacts& relay) {
  std::vector<PlaceRange> places;
  for (auto delivery = relay.deliveries.rbegin(); delivery != relay.deliveries.rend(); ++delivery)
    for (const PlaceRange& range : delivery->places)
      if (relay.topic.empty() || range.topic == relay.topic) places.push_back(range);
  return places;
}

// Returns what is left unknown, and why; empty: nothing.
Result<std::string> Gathering::ask_broker(const StoreConfig& store, const RelayFacts& relay) {
  if (!store.unusable.empty()) return fail(Errc::unavailable, store.unusable);
  const BrokerKind* const kind = broker_of(store);
  if (kind == nullptr) return fail(built_without(store));
  if (kind->find_event == nullptr) return "it cannot be asked for one event";
  if (each_broker_max_ <= Duration{0}) return "nobody waits for it here; `dovetail trace` asks it";
  if (!relay.parked.empty()) return "where a replayed event went is not noted";
  const std::vector<PlaceRange> places = places_of(relay);
  if (places.empty())
    return relay.name + " noted no place of the event, so where to look is unknown";
  Result<life::BrokerAnswer> answer = kind->find_event(store, facts_.id, places, each_broker_max_);
  if (!answer) return fail(answer.error());
  for (life::MessageFacts& message : answer->messages) {
    message.store = store.name;
    facts_.messages.push_back(std::move(message));
  }
  if (answer->unread == 0) return std::string();
  return "there was no time for " + std::to_string(answer->unread) +
         " of the messages among which the event is";
}

void Gathering::ask_brokers() {
  for (const RelayFacts& relay : facts_.relays) {
    const StoreConfig* const to = config_.find_store(relay.to);
    if (relay.is_consumer || relay.state != EventState::delivered || to == nullptr ||
        !to->is_broker())
      continue;
    const Result<std::string> unknown = ask_broker(*to, relay);
    const std::string why = unknown ? *unknown : unknown.error().text;
    if (!why.empty()) facts_.unasked.push_back({to->name, why});
  }
}

// Whether handlers applied what the outbox has.
void Gathering::compare_payload() {
  if (facts_.handlers.empty() || facts_.places.empty()) return;
  const auto payload =
      database_of(*config_.find_store(facts_.places.front().store))->payload_of(facts_.id);
  if (!payload || !*payload) return;
  const std::int64_t digest = payload_digest(**payload);
  for (life::HandlerFacts& handler : facts_.handlers)
    if (handler.digest) handler.is_same = *handler.digest == digest;
}

Result<Facts> Gathering::run() {
  facts_.now = system_clock().wall();
  for (const StoreConfig& store : config_.stores)
    if (!store.is_broker()) ask(store);
  if (asked_ == 0 && error_) return fail(*error_);
  list_relays();
  ask_brokers();
  compare_payload();
  return std::move(facts_);
}

}  // namespace

Result<Facts> gather_life(const Config& config, const EventId& id, Duration each_broker_max) {
  return Gathering(config, id, each_broker_max).run();
}

}  // namespace dovetail::assembly

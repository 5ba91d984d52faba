#include "assembly/reconcile.h"

#include <algorithm>
#include <memory>
#include <regex>
#include <utility>

#include "assembly/brokers/brokers.h"
#include "assembly/consumer_lane.h"
#include "assembly/database.h"
#include "config/units.h"
#include "core/event/batch.h"
#include "core/event/type_filter.h"
#include "core/message/routing.h"

namespace dovetail::assembly {

namespace {

using config::Config;
using config::ConsumerConfig;
using config::RelayConfig;
using config::StoreConfig;
using reconcile::OutboxScan;
using reconcile::ReceiverScan;

// While old rows are deleted, the time that both sides retain moves.
constexpr int kTriesMax = 3;

// The way from the outbox to the receiver.
struct Route {
  std::string relay{};
  const RelayConfig* to_broker = nullptr;  // null: the consumer reads the outbox
  const ConsumerConfig* consumer = nullptr;
};

std::string names_of(const std::vector<const RelayConfig*>& relays) {
  std::string names;
  for (const RelayConfig* relay : relays) names += (names.empty() ? "" : ", ") + relay->name;
  return names;
}

Result<const RelayConfig*> find_relay(const Config& config, const ReconcileRequest& request,
                                      const std::string& to) {
  std::vector<const RelayConfig*> found;
  for (const RelayConfig& relay : config.relays) {
    const bool is_wanted = request.relay.empty() || relay.name == request.relay;
    if (is_wanted && relay.from == request.outbox && relay.to == to) found.push_back(&relay);
  }
  if (found.size() == 1) return found.front();
  if (found.empty())
    return fail(Errc::rejected, "the config has no relay " +
                                    (request.relay.empty() ? "" : "\"" + request.relay + "\" ") +
                                    "from " + request.outbox + " to " + to +
                                    "; check the names of the stores and of the relay");
  return fail(Errc::rejected, "several relays lead from " + request.outbox + " to " + to + ": " +
                                  names_of(found) + "; choose one with --relay");
}

Result<const ConsumerConfig*> find_consumer(const Config& config, const ReconcileRequest& request) {
  if (!request.consumer.empty()) return config.find_consumer(request.consumer);
  std::string names;
  const ConsumerConfig* found = nullptr;
  for (const ConsumerConfig& consumer : config.consumers) {
    if (consumer.relay.to != request.inbox) continue;
    names += (names.empty() ? "" : ", ") + consumer.relay.name;
    found = &consumer;
  }
  const bool is_one = !names.empty() && names == found->relay.name;
  if (is_one) return found;
  return fail(
      Errc::rejected,
      (names.empty() ? "the config has no consumer whose inbox is in " + request.inbox
                     : "several consumers have their inbox in " + request.inbox + ": " + names) +
          "; name one with --consumer");
}

Result<Route> find_route(const Config& config, const ReconcileRequest& request) {
  Route route;
  if (request.inbox.empty()) {
    const Result<const RelayConfig*> relay = find_relay(config, request, request.topic_store);
    if (!relay) return fail(relay.error());
    route.to_broker = *relay;
    route.relay = (*relay)->name;
    return route;
  }
  const Result<const ConsumerConfig*> consumer = find_consumer(config, request);
  if (!consumer) return fail(consumer.error());
  route.consumer = *consumer;
  if (route.consumer == nullptr) {
    // A service runs it: it reads the outbox itself, or the mailbox beside its inbox.
    const Result<const RelayConfig*> relay = find_relay(config, request, request.inbox);
    if (relay) route.to_broker = *relay;
    route.relay = relay ? (*relay)->name : request.relay.empty() ? request.consumer : request.relay;
    return route;
  }
  const RelayConfig& own = route.consumer->relay;
  if (own.to != request.inbox)
    return fail(Errc::rejected, "the inbox of the consumer \"" + own.name + "\" is in " + own.to +
                                    "; name that with --inbox");
  route.relay = own.name;
  if (own.from == request.outbox && route.consumer->source == SourceKind::outbox) return route;
  const Result<const RelayConfig*> relay = find_relay(config, request, own.from);
  if (!relay) return fail(relay.error());
  route.to_broker = *relay;
  route.relay = (*relay)->name;
  return route;
}

// Which topic an event goes to, and who reads it there.
class Router {
 public:
  static Result<std::shared_ptr<Router>> make(const Config& config, const Route& route) {
    auto router = std::make_shared<Router>();
    if (route.to_broker == nullptr) return router;
    router->carried_ = route.to_broker->options.filter;
    if (!route.to_broker->topic.empty()) {
      Result<TopicTemplate> topics = TopicTemplate::parse(route.to_broker->topic);
      if (!topics) return fail(topics.error());
      router->topics_ = std::move(*topics);
    }
    const StoreConfig& broker = *config.find_store(route.to_broker->to);
    // Elsewhere `read` names queues or streams, and not topics.
    const bool reads_topics = broker.scheme == config::StoreScheme::kafka;
    if (route.consumer != nullptr && reads_topics) router->read_ = broker.broker.read;
    return router;
  }

  // What the relay's filter leaves out never gets there.
  bool is_carried(const Event& event) const { return carried_.accepts(event); }

  std::string_view topic_of(const Event& event) {
    if (!topics_) return event.topic;
    arena_.clear();
    return topics_->route(event, arena_);
  }

  bool is_read(std::string_view topic) const {
    const auto matches = [&](const std::string& name) {
      if (!name.starts_with('^')) return name == topic;
      return std::regex_search(topic.begin(), topic.end(),
                               std::regex(name, std::regex::extended | std::regex::nosubs));
    };
    return read_.empty() || std::any_of(read_.begin(), read_.end(), matches);
  }

 private:
  RelayFilter carried_{};
  std::optional<TopicTemplate> topics_{};
  Arena arena_{};
  std::vector<std::string> read_{};
};

const config::HandlerConfig* find_handler(const ConsumerConfig* consumer, std::string_view name) {
  if (consumer == nullptr) return nullptr;
  for (const config::HandlerConfig& handler : consumer->handlers)
    if (inbox_name(*consumer, handler) == name) return &handler;
  return nullptr;
}

std::function<bool(const Event&)> filter_of(const ReconcileRequest& request, const Route& route,
                                            const std::string& receiver,
                                            const std::shared_ptr<Router>& router) {
  if (request.inbox.empty())
    return [router, topic = request.topic](const Event& event) {
      return router->is_carried(event) && router->topic_of(event) == topic;
    };
  if (route.consumer == nullptr) return {};
  return [router, consumer = route.consumer,
          handler = find_handler(route.consumer, receiver)](const Event& event) {
    if (!router->is_carried(event)) return false;
    const std::string_view topic = router->topic_of(event);
    const bool is_of_consumer =
        consumer->topics.empty() || std::find(consumer->topics.begin(), consumer->topics.end(),
                                              topic) != consumer->topics.end();
    const bool is_of_handler = handler == nullptr || wants_type(handler->types, event.type);
    return is_of_consumer && is_of_handler && router->is_read(topic);
  };
}

std::vector<std::string> handlers_of(const ReconcileRequest& request, const Route& route) {
  if (route.consumer == nullptr) return {};
  std::vector<std::string> names;
  for (const config::HandlerConfig& handler : route.consumer->handlers) {
    const std::string name = inbox_name(*route.consumer, handler);
    const bool is_all = request.consumer.empty() || request.consumer == route.consumer->relay.name;
    if (is_all || request.consumer == name) names.push_back(name);
  }
  return names;
}

// The time that both sides retain, and what it leaves of what was asked for.
struct Judged {
  WallTime from{};
  WallTime to{};
  WallTime untimed_from{};
  WallTime forgotten_until{};
  std::vector<std::string> limits{};
};

class Reconciliation {
 public:
  Reconciliation(const Config& config, const ReconcileRequest& request, Route route, Clock& clock,
                 const ReconcileWatch& watch)
      : config_(config),
        request_(request),
        route_(std::move(route)),
        clock_(clock),
        watch_(watch),
        outbox_store_(*config.find_store(request.outbox)),
        receiver_store_(
            *config.find_store(request.inbox.empty() ? request.topic_store : request.inbox)) {}

  Result<ReconcileReport> run();

 private:
  Status open();
  Result<std::unique_ptr<ReceiverScan>> open_topic();
  Result<Judged> judged();
  Result<reconcile::Rules> rules(const Judged& judged);
  Result<reconcile::Outcome> compare(const Judged& judged);
  ReconcileReport report(const Judged& judged, reconcile::Outcome outcome);
  bool has_other_sources() const;
  bool tell(std::string_view doing, std::uint64_t read, std::uint64_t of) const {
    return !watch_ || watch_({doing, read, of});
  }

  const Config& config_;
  const ReconcileRequest& request_;
  const Route route_;
  Clock& clock_;
  const ReconcileWatch& watch_;
  const StoreConfig& outbox_store_;
  const StoreConfig& receiver_store_;
  std::unique_ptr<OutboxScan> outbox_{};
  std::unique_ptr<ReceiverScan> receiver_{};
};

Result<std::unique_ptr<ReceiverScan>> Reconciliation::open_topic() {
  const BrokerKind* const kind = receiver_store_.is_broker() ? broker_of(receiver_store_) : nullptr;
  if (kind == nullptr || kind->scan_topic == nullptr)
    return fail(Errc::rejected, "store " + receiver_store_.name + " is " +
                                    std::string(receiver_store_.type().name) +
                                    ", whose topics cannot be read again; only a topic of Kafka "
                                    "can be reconciled");
  return kind->scan_topic(
      receiver_store_, request_.topic, request_.from.value_or(WallTime{}),
      [this](std::uint64_t read) { return tell("reading the topic", read, 0); });
}

// The outbox first: see OutboxScan.
Status Reconciliation::open() {
  const std::string& store = outbox_store_.name;
  auto outbox = database_of(outbox_store_)
                    ->scan_outbox(route_.relay, request_.from.value_or(WallTime{}),
                                  request_.to.value_or(WallTime{} + kForever));
  if (!outbox) return fail(outbox.error().code, "store " + store + ": " + outbox.error().text);
  outbox_ = std::move(*outbox);
  const std::string& consumer =
      route_.consumer != nullptr ? route_.consumer->relay.name : request_.consumer;
  auto receiver =
      request_.inbox.empty()
          ? open_topic()
          : database_of(receiver_store_)->scan_inbox(consumer, handlers_of(request_, route_));
  if (!receiver)
    return fail(receiver.error().code,
                "store " + receiver_store_.name + ": " + receiver.error().text);
  receiver_ = std::move(*receiver);
  return {};
}

Result<Judged> Reconciliation::judged() {
  const Result<reconcile::Retained> outbox = outbox_->retained();
  if (!outbox) return fail(outbox.error());
  Result<WallTime> receiver = receiver_->retained_since();
  if (!receiver) return fail(receiver.error());
  const WallTime asked_from = request_.from.value_or(WallTime::min());
  const WallTime started = outbox_->place().at;
  Judged judged;
  judged.from = std::max({WallTime{}, asked_from, outbox->since, *receiver});
  judged.to = std::min(request_.to.value_or(started), started);
  judged.untimed_from = outbox->untimed_since;
  judged.forgotten_until = *receiver;
  if (outbox->since > asked_from && outbox->since > WallTime{})
    judged.limits.push_back("the outbox has everything since " + config::iso_time(outbox->since));
  if (*receiver > asked_from && *receiver > WallTime{})
    judged.limits.push_back((request_.inbox.empty() ? "the topic has everything since "
                                                    : "the inbox remembers everything since ") +
                            config::iso_time(*receiver));
  if (request_.to && *request_.to > started)
    judged.limits.push_back("the comparison began at " + config::iso_time(started));
  if (judged.from < judged.to) return judged;
  std::string why;
  for (const std::string& limit : judged.limits) why += "; " + limit;
  return fail(Errc::rejected, "both sides together retain nothing of the time that was asked for" +
                                  why + "; choose a later time");
}

bool Reconciliation::has_other_sources() const {
  if (request_.has_other_sources) return true;
  if (route_.to_broker == nullptr) return false;
  return std::count_if(config_.relays.begin(), config_.relays.end(),
                       [&](const RelayConfig& one) { return one.to == route_.to_broker->to; }) > 1;
}

Result<reconcile::Rules> Reconciliation::rules(const Judged& judged) {
  Result<std::shared_ptr<Router>> router = Router::make(config_, route_);
  if (!router) return fail(router.error());
  reconcile::Rules rules;
  for (const std::string& name : receiver_->names())
    rules.receivers.push_back({.name = name,
                               .wants = filter_of(request_, route_, name, *router),
                               .forgotten_until = judged.forgotten_until});
  rules.from = judged.from;
  rules.to = judged.to;
  rules.untimed_from = judged.untimed_from;
  rules.late_after = request_.late_after;
  // What the relay has passed is in a topic. Behind it, a consumer may still have to read it.
  if (route_.to_broker != nullptr && !request_.inbox.empty())
    rules.on_the_way_since = outbox_->place().at - request_.on_the_way;
  rules.has_other_sources = has_other_sources();
  rules.findings_max = request_.findings_max;
  return rules;
}

Result<reconcile::Outcome> Reconciliation::compare(const Judged& judged) {
  const Result<reconcile::Rules> known = rules(judged);
  if (!known) return fail(known.error());
  reconcile::Sides sides{.published = outbox_->events(), .received = receiver_->rows()};
  sides.held.push_back(&outbox_->held());
  if (receiver_->held() != nullptr) sides.held.push_back(receiver_->held());
  sides.find_now = [this](std::span<const EventId> ids) { return outbox_->find_now(ids); };
  const std::uint64_t of = outbox_->events_estimate();
  return reconcile::compare(*known, sides,
                            [&](std::uint64_t read) { return tell("comparing", read, of); });
}

ReconcileReport Reconciliation::report(const Judged& judged, reconcile::Outcome outcome) {
  ReconcileReport report;
  report.outbox = outbox_store_.name;
  report.relay = route_.relay;
  report.receiver_store = receiver_store_.name;
  report.is_topic = request_.inbox.empty();
  report.receiver = report.is_topic              ? request_.topic
                    : route_.consumer != nullptr ? route_.consumer->relay.name
                                                 : request_.consumer;
  report.receivers = receiver_->names();
  report.outbox_place = outbox_->place();
  report.outbox_place.store = outbox_store_.shown;
  report.receiver_place = receiver_->place();
  report.receiver_place.store = receiver_store_.shown;
  report.from = judged.from;
  report.to = judged.to;
  report.limits = judged.limits;
  report.ended = clock_.wall();
  report.has_other_sources = has_other_sources();
  report.outcome = std::move(outcome);
  return report;
}

Result<ReconcileReport> Reconciliation::run() {
  for (int tried = 0; tried < kTriesMax; ++tried) {
    DOVETAIL_TRY(open());
    const Result<Judged> before = judged();
    if (!before) return fail(before.error());
    Result<reconcile::Outcome> outcome = compare(*before);
    if (!outcome) return fail(outcome.error());
    const Result<Judged> after = judged();
    if (!after) return fail(after.error());
    if (after->from <= before->from) return report(*before, std::move(*outcome));
  }
  return fail(Errc::unavailable,
              "old rows were deleted while both sides were compared, " + std::to_string(kTriesMax) +
                  " times; choose a later --from, or try again when nothing is deleted");
}

Status check_stores(const Config& config, const ReconcileRequest& request) {
  for (const std::string& name :
       {request.outbox, request.inbox.empty() ? request.topic_store : request.inbox})
    if (config.find_store(name) == nullptr)
      return fail(Errc::rejected, "the config has no store \"" + name + "\"; check the name");
  return {};
}

}  // namespace

Result<ReconcileReport> reconcile_stores(const Config& config, const ReconcileRequest& request,
                                         Clock& clock, const ReconcileWatch& watch) {
  DOVETAIL_TRY(check_stores(config, request));
  Result<Route> route = find_route(config, request);
  if (!route) return fail(route.error());
  return Reconciliation(config, request, std::move(*route), clock, watch).run();
}

}  // namespace dovetail::assembly

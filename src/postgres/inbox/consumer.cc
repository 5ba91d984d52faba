// The consumer: a relay from an outbox or a broker into an inbox with the application's handlers.
#include <algorithm>
#include <mutex>
#include <set>

#include "core/inbox/inbox.h"
#include "core/relay/relay.h"
#include "core/sinks/chained_sink.h"
#include "dovetail/postgres_consumer.h"
#include "host/consuming.h"
#include "host/errand.h"
#include "host/host.h"
#include "host/parallel_sink.h"
#include "postgres/inbox/inbox_store.h"
#include "postgres/inbox/origin_store.h"
#include "postgres/lane/lanes.h"
#include "postgres/schema/schema.h"

namespace dovetail::postgres {

namespace {

// The same as in relays of the outbox, so a broker in between does not change an event's topic.
constexpr std::string_view kTopics = "{aggregate_type}.events";

std::function<bool(const Event&)> takes(const std::vector<std::string>& topics) {
  return [&topics](const Event& event) {
    return std::find(topics.begin(), topics.end(), event.topic) != topics.end();
  };
}

bool is_plain_name(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
  });
}

Status check(const ConsumerOptions& options) {
  const char* wrong = nullptr;
  if (options.database.empty())
    wrong = "ConsumerOptions::database is empty; set it to connection settings of libpq";
  if (options.name.empty() || options.name.size() > 200)
    wrong = "ConsumerOptions::name must have 1 to 200 bytes; check it";
  if (options.name.find('.') != std::string::npos)
    wrong =
        "ConsumerOptions::name has a dot, which separates a consumer from its handler; use another "
        "character";
  if (!options.from.empty() && options.origin.make)
    wrong = "ConsumerOptions has both `from` and `origin`; set only one of them";
  if (options.attempts_max == 0) wrong = "ConsumerOptions::attempts_max is 0; set it to at least 1";
  if (options.parallel == 0 || options.parallel > kKeyBuckets)
    wrong = "ConsumerOptions::parallel must be 1 to 256; check it";
  if (options.batch_events_max == 0 || options.window_events_max == 0)
    wrong = "a limit of ConsumerOptions is 0; batches and window must hold at least 1 event";
  if (options.lease_term < std::chrono::milliseconds(100))
    wrong = "ConsumerOptions::lease_term is below 100 ms; raise it, 10 s is usual";
  if (wrong != nullptr) return fail(Errc::rejected, wrong);
  return {};
}

Result<std::vector<TransactionHandler>> handlers_of(const std::string& consumer,
                                                    std::vector<NamedHandler> handlers) {
  if (handlers.empty())
    return fail(Errc::rejected, "the consumer has no handler; pass one to Consumer::open()");
  std::vector<TransactionHandler> all;
  std::set<std::string> names;
  for (NamedHandler& handler : handlers) {
    const bool is_only = handlers.size() == 1 && handler.name.empty();
    if ((!is_only && !is_plain_name(handler.name)) || handler.name.size() > 50 ||
        !names.insert(handler.name).second)
      return fail(Errc::rejected, "the handler \"" + handler.name +
                                      "\" needs a unique name of 1 to 50 "
                                      "letters, digits, '-' and '_'; check it");
    if (static_cast<bool>(handler.each) == static_cast<bool>(handler.batch))
      return fail(Errc::rejected,
                  "the handler \"" + handler.name +
                      "\" needs exactly one function; set either `each` or `batch`");
    std::string name = is_only ? consumer : consumer + "." + handler.name;
    if (handler.each) {
      all.push_back(
          cpp_handler(std::move(name), std::move(handler.types), std::move(handler.each)));
    } else {
      all.push_back(
          cpp_batch_handler(std::move(name), std::move(handler.types), std::move(handler.batch)));
    }
  }
  return all;
}

Status check_database(const std::string& conninfo) {
  Result<Connection> connection = Connection::open(conninfo);
  if (!connection) return fail(connection.error());
  const Result<std::int64_t> version = check_schema(*connection);
  return version ? Status{} : fail(version.error());
}

}  // namespace

struct Consumer::State {
  State(ConsumerOptions given, std::vector<TransactionHandler> given_handlers)
      : options(std::move(given)), handlers(std::move(given_handlers)) {
    if (options.origin.make) return;
    lanes = std::make_unique<Lanes>(lanes_options(), clock, [this](std::uint32_t lane) {
      return in_background(make_inbox(lane), clock);
    });
  }

  std::shared_ptr<Sink> make_inbox(std::uint32_t lane);
  LanesOptions lanes_options();
  Status run_origin(std::stop_token stop);
  void tell(const RelayNotice& notice);
  const RelayMetrics& metrics() const { return lanes ? lanes->metrics() : own_metrics; }

  ConsumerOptions options;
  std::vector<TransactionHandler> handlers;
  SystemClock& clock = system_clock();
  TopicTemplate topics = TopicTemplate::parse(kTopics).value();
  std::mutex telling{};  // lanes have their own threads
  RelayMetrics own_metrics{};
  std::unique_ptr<Lanes> lanes{};  // null: the consumer reads a broker
};

void Consumer::State::tell(const RelayNotice& notice) {
  if (!options.log) return;
  const std::lock_guard lock(telling);
  options.log(std::string(to_string(notice.kind)) + ": " + notice.text);
}

std::shared_ptr<Sink> Consumer::State::make_inbox(std::uint32_t lane) {
  InboxStoreOptions store;
  store.conninfo = options.database;
  store.consumer = options.name;
  store.lane = lane;
  store.version_guard = options.version_guard;
  store.handlers = handlers;
  std::shared_ptr<Sink> inbox = inbox_on(std::make_unique<PostgresInboxStore>(std::move(store)),
                                         InboxOptions{deaths_max(options.attempts_max)});
  if (options.topics.empty()) return inbox;
  return std::make_shared<ChainedSink>(
      std::vector<ChainedSink::Stage>{{std::move(inbox), takes(options.topics)}});
}

LanesOptions Consumer::State::lanes_options() {
  LanesOptions lane;
  lane.conninfo = options.from.empty() ? options.database : options.from;
  lane.relay = options.name;
  lane.owner = process_label();
  lane.lanes = options.parallel;
  lane.lease_term = options.lease_term;
  lane.relay_options = relay_options_of(options);
  lane.topics = &topics;
  lane.notify = [this](std::int32_t, const RelayNotice& notice) { tell(notice); };
  return lane;
}

// One process reads the broker and others stand by, so that its order holds.
Status Consumer::State::run_origin(std::stop_token stop) {
  PostgresOriginStore home(options.database, options.name, {}, options.lease_term, clock);
  OriginSource source(options.origin, home, clock, run_errand, true,
                      std::max<Duration>(options.lease_term / 3, std::chrono::seconds(3)));
  OriginLease lease(source, home.lease());
  std::vector<std::shared_ptr<Sink>> sinks;
  for (std::uint32_t lane = 0; lane < options.parallel; ++lane) sinks.push_back(make_inbox(lane));
  ParallelSink sink(std::move(sinks), clock);
  Relay relay(RelayPorts{source, sink, home.parking(), lease, clock, own_metrics,
                         [this](const RelayNotice& notice) { tell(notice); }, nullptr,
                         [&home](const RelayState& state) { home.say(state); }},
              relay_options_of(options));
  return relay.run(std::move(stop));
}

Consumer::Consumer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Consumer::~Consumer() = default;

Result<std::unique_ptr<Consumer>> Consumer::open(ConsumerOptions options,
                                                 std::vector<NamedHandler> handlers) {
  DOVETAIL_TRY(check(options));
  Result<std::vector<TransactionHandler>> checked = handlers_of(options.name, std::move(handlers));
  if (!checked) return fail(checked.error());
  DOVETAIL_TRY(check_database(options.database));
  if (!options.from.empty()) DOVETAIL_TRY(check_database(options.from));
  return std::unique_ptr<Consumer>(
      new Consumer(std::make_unique<State>(std::move(options), std::move(*checked))));
}

Status Consumer::run(std::stop_token stop) {
  return state_->lanes ? state_->lanes->run(std::move(stop)) : state_->run_origin(std::move(stop));
}

ConsumerCounts Consumer::counts() const { return counts_of<ConsumerCounts>(state_->metrics()); }

}  // namespace dovetail::postgres

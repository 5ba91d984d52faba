// The consumer: a relay from a mailbox or an outbox into an inbox with a handler.
#include <optional>
#include <vector>

#include "core/inbox/inbox.h"
#include "core/relay/relay.h"
#include "dovetail/sqlite.h"
#include "host/consuming.h"
#include "host/host.h"
#include "host/parallel_sink.h"
#include "sqlite/inbox/inbox_store.h"
#include "sqlite/lane/lease.h"
#include "sqlite/lane/parking.h"
#include "sqlite/lane/relay_state.h"
#include "sqlite/outbox/source.h"

namespace dovetail::sqlite {

namespace {

Reader reader_of(const ConsumerOptions& options) {
  Reader reader;
  reader.path = options.from.empty() ? options.database : options.from;
  reader.name = options.name;
  reader.source = options.from.empty() ? SourceKind::mailbox : SourceKind::outbox;
  reader.topics = options.topics;
  return reader;
}

Status check(const ConsumerOptions& options, bool has_handler) {
  const char* wrong = nullptr;
  if (options.database.empty())
    wrong = "ConsumerOptions::database is empty; set it to the path of a file";
  if (options.name.empty()) wrong = "ConsumerOptions::name is empty; set it";
  if (options.attempts_max == 0) wrong = "ConsumerOptions::attempts_max is 0; set it to at least 1";
  if (options.batch_events_max == 0 || options.window_events_max == 0)
    wrong = "a limit of ConsumerOptions is 0; batches and window must hold at least 1 event";
  if (options.lease_term < std::chrono::milliseconds(100))
    wrong = "ConsumerOptions::lease_term is below 100 ms; raise it, 10 s is usual";
  if (!has_handler) wrong = "the consumer has no handler; pass one to Consumer::open()";
  if (wrong != nullptr) return fail(Errc::rejected, wrong);
  return {};
}

}  // namespace

struct Consumer::State {
  State(ConsumerOptions given, Handler handler)
      : options(std::move(given)),
        reader(reader_of(options)),
        source(reader, system_clock()),
        parking(reader, system_clock()),
        lease(reader, system_clock(), process_label(), boot_id(), options.lease_term),
        // A handler may take longer than the lease, so it gets its own thread.
        sink(in_background(
            inbox_on(std::make_unique<SqliteInboxStore>(options.database, options.name,
                                                        std::move(handler), system_clock()),
                     InboxOptions{deaths_max(options.attempts_max)}),
            system_clock())),
        recorder(system_clock(), state_writer(reader, system_clock())) {}

  ConsumerOptions options;
  Reader reader;
  SqliteSource source;
  SqliteParking parking;
  SqliteLease lease;
  std::unique_ptr<Sink> sink;
  RelayMetrics metrics;
  StateRecorder recorder;
};

Consumer::Consumer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Consumer::~Consumer() = default;

Result<std::unique_ptr<Consumer>> Consumer::open(ConsumerOptions options, Handler handler) {
  DOVETAIL_TRY(check(options, static_cast<bool>(handler)));
  DOVETAIL_TRY(ensure_store(options.database));
  const Reader reader = reader_of(options);
  Result<Database> source = open_store(reader.path);
  if (!source) return fail(source.error());
  DOVETAIL_TRY(ensure_reader(*source, reader));
  source->close();
  return std::unique_ptr<Consumer>(
      new Consumer(std::make_unique<State>(std::move(options), std::move(handler))));
}

Status Consumer::run(std::stop_token stop) {
  State& state = *state_;
  RelayPorts ports{state.source, *state.sink,    state.parking,
                   state.lease,  system_clock(), state.metrics};
  if (state.options.log)
    ports.notify = [&log = state.options.log](const RelayNotice& notice) {
      log(std::string(to_string(notice.kind)) + ": " + notice.text);
    };
  ports.report = [&state](const RelayState& said) {
    state.recorder.report(said, state.reader.epoch);
  };
  Relay relay(std::move(ports), relay_options_of(state.options));
  return relay.run(std::move(stop));
}

ConsumerCounts Consumer::counts() const { return counts_of<ConsumerCounts>(state_->metrics); }

}  // namespace dovetail::sqlite

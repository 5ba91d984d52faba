// The inventory service on PostgreSQL, built from its ports, so that it can die at a chosen point
// or work by a wrong scheme:
//
//   dovetail_dying_consumer FROM TO [--die POINT | --stop POINT] [--times N] [--lease MS]
//                           [--fix FILE] [--batch N] [--scheme NAME] [--attempts N] [--idle MS]
//                           [--as consumer]
//
// TO is the connection string of the stock, FROM that of the orders' outbox, or a broker as in
// feed.h, which then decides who reads what. POINT is one of dying.h, reached for the N-th time.
// --attempts: how often an event may end the process before it is parked; tests that kill at random
// need many. NAME: ours, row-first, effect-first, settles-first.
//
// --as consumer: as in applications, through dovetail/postgres_consumer.h, with nothing in between;
// it dies when it is killed.
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "core/relay/relay.h"
#include "host/host.h"
#include "kit/dying_main.h"
#include "postgres/inbox/inbox_store.h"
#include "postgres/lane/lease.h"
#include "postgres/lane/parking.h"
#include "postgres/outbox/source.h"
#include "proofs/inbox/feed.h"
#include "proofs/inbox/naive_store.h"
#include "proofs/inbox/postgres_stock.h"

namespace dovetail::shop {
namespace {

std::unique_ptr<InboxStore> make_store(const std::string& conninfo, const Words& words,
                                       Doom& doom) {
  const std::string fix_file = word(words, "--fix", "");
  const postgres::Handler each = [fix_file](postgres::Invocation& invocation, const Event& event) {
    return move_stock(invocation, event, fix_file);
  };
  const std::string scheme = word(words, "--scheme", "ours");
  if (scheme == "row-first" || scheme == "effect-first") {
    const bool row_first = scheme == "row-first";
    if (const Status made = create_naive_table(conninfo); !made)
      std::fprintf(stderr, "%s\n", made.error().text.c_str());
    return std::make_unique<NaiveStore>(
        NaiveStore::Options{conninfo, row_first ? Scheme::row_first : Scheme::effect_first, each,
                            [&doom] { doom.reach("between"); }});
  }
  postgres::InboxStoreOptions options{
      .conninfo = conninfo, .consumer = "inventory", .handlers = {}};
  options.handlers.push_back(postgres::cpp_handler("inventory", {}, each));
  options.handlers_timeout = std::chrono::milliseconds(std::stoi(word(words, "--idle", "120000")));
  return std::make_unique<postgres::PostgresInboxStore>(std::move(options));
}

RelayOptions relay_options(const Words& words) {
  RelayOptions options;
  options.batch_events_max = static_cast<std::size_t>(std::stoi(word(words, "--batch", "5")));
  options.window_events_max = 100;
  options.idle_wait = std::chrono::milliseconds(20);
  options.progress_interval = std::chrono::milliseconds(20);
  options.replay_poll = std::chrono::milliseconds(20);
  options.key_retry.base = std::chrono::milliseconds(10);
  options.key_retry.cap = std::chrono::milliseconds(200);
  options.connect_retry.base = std::chrono::milliseconds(10);
  options.connect_retry.cap = std::chrono::milliseconds(200);
  return options;
}

int run_consumer(const std::string& from, const std::string& to, const Words& words, Doom& doom) {
  postgres::ConsumerOptions options;
  options.database = to;
  options.name = "inventory";
  options.parallel = 4;
  options.batch_events_max = static_cast<std::size_t>(std::stoi(word(words, "--batch", "50")));
  options.window_events_max = 500;
  options.lease_term = std::chrono::milliseconds(std::stoi(word(words, "--lease", "2000")));
  options.retry_cap = std::chrono::milliseconds(200);
  options.log = [](std::string_view line) {
    std::printf("%.*s\n", static_cast<int>(line.size()), line.data());
    std::fflush(stdout);
  };
  if (broker_source(from, doom) == nullptr) {
    options.from = from;
  } else {
    options.origin =
        Origin{"a broker", [from, &doom](Clock&, Duration) -> Result<std::unique_ptr<Source>> {
                 return broker_source(from, doom);
               }};
  }
  const std::string fix_file = word(words, "--fix", "");
  postgres::NamedHandler handler;
  handler.each = [fix_file](postgres::Invocation& invocation, const Event& event) {
    return move_stock(invocation, event, fix_file);
  };
  // Like a service that starts before its database answers.
  for (;;) {
    auto consumer = postgres::Consumer::open(options, {handler});
    if (consumer)
      return run_until_told([&](std::stop_token stop) { return (*consumer)->run(stop); });
    if (consumer.error().code != Errc::unavailable) {
      std::printf("open: %s\n", consumer.error().text.c_str());
      return 1;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

int main_of(int argc, char** argv) {
  if (argc < 3 || argc % 2 == 0) {
    std::fprintf(stderr, "usage: dovetail_dying_consumer FROM TO [--NAME VALUE]...\n");
    return 2;
  }
  hold_sigterm();
  const Words words = words_of(argc, argv);
  Doom doom = doom_of(words);
  const std::string to = argv[2];
  if (words.contains("--as")) return run_consumer(argv[1], to, words, doom);
  servers::TcpProxy link(port_of(to));
  const auto store = make_store(
      to + " host=127.0.0.1 port=" + std::to_string(link.port()) + " sslmode=disable", words, doom);
  DyingStore dying_store(doom, *store, link);
  Inbox inbox(
      dying_store,
      {.attempts_max = static_cast<std::uint32_t>(std::stoul(word(words, "--attempts", "5")))});

  std::unique_ptr<Source> source = broker_source(argv[1], doom);
  const bool is_broker = source != nullptr;
  postgres::Reader reader{.conninfo = is_broker ? to : argv[1],
                          .relay = "inventory",
                          .source = is_broker ? SourceKind::broker : SourceKind::outbox};
  if (!is_broker) source = std::make_unique<postgres::PostgresSource>(reader, system_clock());
  DyingSource dying_source(doom, *source, word(words, "--scheme", "") == "settles-first");
  postgres::PostgresParking parking(reader);
  DyingParking dying_parking(doom, parking);
  const std::chrono::milliseconds term(std::stoi(word(words, "--lease", "500")));
  std::unique_ptr<Lease> lease = std::make_unique<NoLease>();
  if (!is_broker)
    lease = std::make_unique<postgres::PostgresLease>(reader, system_clock(),
                                                      std::to_string(::getpid()), term);
  RelayMetrics metrics;
  const auto tell = [](const RelayNotice& notice) {
    std::printf("%s: %s\n", std::string(to_string(notice.kind)).c_str(), notice.text.c_str());
    std::fflush(stdout);
  };
  Relay relay(RelayPorts{dying_source, inbox, dying_parking, *lease, system_clock(), metrics, tell},
              relay_options(words));
  const int code = run_until_told([&](std::stop_token stop) { return relay.run(stop); });
  // If close() fails, the next session only distrusts this one.
  if (const Status closed = inbox.close(); !closed)
    std::printf("close: %s\n", closed.error().text.c_str());
  (void)lease->release();
  return code;
}

}  // namespace
}  // namespace dovetail::shop

int main(int argc, char** argv) { return dovetail::shop::main_of(argc, argv); }

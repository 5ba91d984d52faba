// A relay out of PostgreSQL into a book of deliveries, put together from its ports, so that it can
// be made to die or to stop at a point of its own:
//
//   dovetail_dying_relay CONNINFO BOOK [--mode auto|wal|poll] [--die POINT | --stop POINT]
//                        [--times N] [--cut N] [--lease MS] [--batch N] [--settles-first yes]
//
// POINT, reached for the N-th time, is one of those of BookSink and DyingSource, where only those
// count that are reached while the log is read (in mode poll, all), or
//
//   reopening, reopened, received-again  C6  the connection was lost, which happens by itself at
//                                            the N-th read of the log that brings something (--cut)
//   step:NAME                                what WalSource passes under that name
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "core/relay.h"
#include "crash/delivery_book.h"
#include "crash/dying.h"
#include "host/host.h"
#include "postgres/lease.h"
#include "postgres/parking.h"
#include "postgres/source.h"

namespace dovetail::shop {
namespace {

using Words = std::map<std::string, std::string>;

std::string word(const Words& words, const std::string& name, const std::string& otherwise) {
  const auto found = words.find(name);
  return found == words.end() ? otherwise : found->second;
}

RelayOptions relay_options(const Words& words) {
  RelayOptions options;
  options.batch_events_max = static_cast<std::size_t>(std::stoi(word(words, "--batch", "50")));
  options.window_events_max = options.batch_events_max * 8;
  options.idle_wait = std::chrono::milliseconds(20);
  options.progress_interval = std::chrono::milliseconds(20);
  options.connect_retry.base = std::chrono::milliseconds(10);
  options.connect_retry.cap = std::chrono::milliseconds(200);
  return options;
}

int main_of(int argc, char** argv) {
  if (argc < 3 || argc % 2 == 0) {
    std::fprintf(stderr, "usage: dovetail_dying_relay CONNINFO BOOK [--NAME VALUE]...\n");
    return 2;
  }
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  Words words;
  for (int i = 3; i + 1 < argc; i += 2) words[argv[i]] = argv[i + 1];

  Doom doom(word(words, "--die", word(words, "--stop", "")),
            std::stoll(word(words, "--times", "1")), words.contains("--stop"));
  RelayMetrics metrics;
  const bool polls = word(words, "--mode", "auto") == "poll";
  const auto is_watched = [&metrics, polls] { return polls || metrics.streams.load() != 0; };
  postgres::Reader reader{.conninfo = argv[1], .relay = "dying"};
  postgres::PostgresSource source(reader, system_clock());
  DyingSource dying_source(doom, source, words.contains("--settles-first"), is_watched);
  BookSink sink(argv[2], doom, is_watched);
  postgres::PostgresParking parking(reader);
  postgres::PostgresLease lease(
      reader, system_clock(), std::to_string(::getpid()),
      std::chrono::milliseconds(std::stoi(word(words, "--lease", "10000"))));
  const auto tell = [](const RelayNotice& notice) {
    Doom::tell(std::string(to_string(notice.kind)).c_str(), notice.text);
  };
  Relay relay(RelayPorts{dying_source, sink, parking, lease, system_clock(), metrics, tell},
              relay_options(words));
  Status ended;
  std::jthread thread([&](std::stop_token stop) { ended = relay.run(stop); });
  int signal = 0;
  ::sigwait(&signals, &signal);
  thread.request_stop();
  thread.join();
  (void)lease.release();
  if (!ended) Doom::tell("ended:", ended.error().text);
  return ended ? 0 : 1;
}

}  // namespace
}  // namespace dovetail::shop

int main(int argc, char** argv) { return dovetail::shop::main_of(argc, argv); }

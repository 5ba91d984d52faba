// A relay from PostgreSQL into a book of deliveries, built from its ports, so that it can
// die or stop at a chosen point:
//
//   dovetail_dying_relay CONNINFO BOOK [--mode auto|wal|poll] [--die POINT | --stop POINT]
//                        [--times N] [--cut N] [--slow BYTES] [--catch-up N]
//                        [--lease MS] [--batch N] [--settles-first yes]
//                        [--table copied]
//
// POINT, reached for the N-th time, is one of BookSink and DyingSource, where only those
// count that are reached while the WAL is read (in mode poll: all), or
//
//   reopening, reopened, received-again C6 after the replication connection was lost,
//   which
//                                            happens at the N-th read that returns WAL
//                                            (--cut)
//   step:NAME a step that WalSource passes
//
// --table: reads the table of copied_table.h instead of the outbox. --slow: limits the WAL
// to that many bytes per second. At its end it prints how often it has passed each step.
#include <unistd.h>

#include <cstdio>
#include <map>
#include <memory>
#include <string>

#include "core/relay/relay.h"
#include "host/host.h"
#include "kit/dying_main.h"
#include "postgres/lane/lease.h"
#include "postgres/lane/parking.h"
#include "postgres/mapped/publication.h"
#include "postgres/mapped/rows.h"
#include "postgres/mapped/windows.h"
#include "postgres/outbox/source.h"
#include "postgres/wal/source.h"
#include "proofs/wal/copied_table.h"
#include "proofs/wal/delivery_book.h"
#include "servers/tcp_proxy.h"

namespace dovetail::shop {
namespace {

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

// Loses its replication connection once, and reports what comes then.
class CutSource final : public Source {
 public:
  CutSource(Doom& doom, Source& source, servers::TcpProxy& link, const RelayMetrics& metrics,
            std::int64_t cut_at)
      : doom_(doom), source_(source), link_(link), metrics_(metrics), cut_at_(cut_at) {}

  Status open() override {
    const bool again = ++opens_ > 1;
    if (again) doom_.reach("reopening");
    Status done = source_.open();
    if (again && done) doom_.reach("reopened");
    return done;
  }
  Status read(Batch& out, const Limits& limits, std::stop_token stop) override {
    Status done = source_.read(out, limits, stop);
    if (out.empty()) return done;
    if (opens_ > 1) doom_.reach("received-again");
    if (metrics_.streams.load() != 0 && --cut_at_ == 0) link_.cut();
    return done;
  }
  Status settle(const Batch& batch, std::span<const Settled> fates) override {
    return source_.settle(batch, fates);
  }
  Status flush() override { return source_.flush(); }
  Status keep_alive() override { return source_.keep_alive(); }

 private:
  Doom& doom_;
  Source& source_;
  servers::TcpProxy& link_;
  const RelayMetrics& metrics_;
  std::int64_t cut_at_;
  int opens_ = 0;
};

postgres::ReadMode mode_of(const std::string& name) {
  if (name == "wal") return postgres::ReadMode::wal;
  return name == "poll" ? postgres::ReadMode::poll : postgres::ReadMode::automatic;
}

// Over the outbox, or over the table with its copies.
std::unique_ptr<postgres::Windows> make_windows(const Words& words, postgres::Reader& reader,
                                                postgres::WalSourceOptions& options) {
  if (!words.contains("--table"))
    return std::make_unique<postgres::PostgresSource>(reader, system_clock());
  auto windows =
      std::make_unique<postgres::MappedWindows>(reader, copied_mapping(), system_clock());
  options.publication = postgres::publication_of(reader.relay, copied_mapping());
  options.checks_publication = false;
  options.make_rows = [mapped = windows.get()] {
    return postgres::mapped_rows(mapped->table(), copied_mapping(), mapped->last_position());
  };
  return windows;
}

int main_of(int argc, char** argv) {
  if (argc < 3 || argc % 2 == 0) {
    std::fprintf(stderr, "usage: dovetail_dying_relay CONNINFO BOOK [--NAME VALUE]...\n");
    return 2;
  }
  hold_sigterm();
  const Words words = words_of(argc, argv);
  Doom doom = doom_of(words);
  RelayMetrics metrics;
  servers::TcpProxy link(port_of(argv[1]));
  link.slow(std::stoull(word(words, "--slow", "0")));
  std::map<std::string, int, std::less<>> passed;
  postgres::WalSourceOptions options;
  options.reading.mode = mode_of(word(words, "--mode", "auto"));
  options.replication_conninfo = std::string(argv[1]) +
                                 " host=127.0.0.1 port=" + std::to_string(link.port()) +
                                 " sslmode=disable gssencmode=disable";
  options.catch_up_events = std::stoll(word(words, "--catch-up", "50000"));
  options.safe_point_every = std::chrono::milliseconds(50);
  options.retry_every = std::chrono::milliseconds(200);
  options.changed = [](bool, std::string_view why) { Doom::tell("source_changed", why); };
  options.passing = [&](std::string_view step) {
    ++passed[std::string(step)];
    doom.reach("step:" + std::string(step));
  };
  const bool polls = options.reading.mode == postgres::ReadMode::poll;
  const auto is_watched = [&metrics, polls] { return polls || metrics.streams.load() != 0; };
  postgres::Reader reader{.conninfo = argv[1], .relay = "dying"};
  const auto windows = make_windows(words, reader, options);
  postgres::WalSource source(reader, *windows, system_clock(), metrics, options);
  CutSource cut_source(doom, source, link, metrics, std::stoll(word(words, "--cut", "0")));
  DyingSource dying_source(doom, cut_source, words.contains("--settles-first"), is_watched);
  BookSink sink(argv[2], doom, is_watched);
  postgres::PostgresParking parking(reader);
  const std::chrono::milliseconds term(std::stoi(word(words, "--lease", "10000")));
  postgres::PostgresLease lease(reader, system_clock(), std::to_string(::getpid()), term);
  const auto tell = [](const RelayNotice& notice) {
    Doom::tell(std::string(to_string(notice.kind)).c_str(), notice.text);
  };
  Relay relay(RelayPorts{dying_source, sink, parking, lease, system_clock(), metrics, tell},
              relay_options(words));
  const int code = run_until_told([&](std::stop_token stop) { return relay.run(stop); });
  (void)lease.release();
  for (const auto& [step, times] : passed) Doom::tell("passed", step + " " + std::to_string(times));
  return code;
}

}  // namespace
}  // namespace dovetail::shop

int main(int argc, char** argv) { return dovetail::shop::main_of(argc, argv); }

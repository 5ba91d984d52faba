// A relay from PostgreSQL into a mailbox that stops itself once with SIGSTOP at a named point, and
// prints one line for everything it does:
//
//   dovetail_pausing_relay CONNINFO MAILBOX LEASE_MS [POINT]
//
//   claimed events are read, the sink has none of them
//   sent the sink has the events, their outcome is unknown
//   landing the sink is about to publish them, after the relay's last check of its lease
//   confirmed their outcome is known, nothing is written about it
//   settling progress is about to be written
//   parking a refused event is about to be parked
//   renewing the lease is about to be renewed
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>

#include "core/relay/relay.h"
#include "host/host.h"
#include "postgres/lane/lease.h"
#include "postgres/lane/parking.h"
#include "postgres/outbox/source.h"
#include "sqlite/inbox/mailbox.h"

namespace dovetail {
namespace {

// Only after this many events are in the mailbox: then the relay works at full speed.
constexpr std::size_t kWrittenBefore = 20;

// Shared by all parts of the relay.
struct Story {
  postgres::Reader reader;
  RelayMetrics metrics;
  std::string point;
  std::size_t written = 0;

  void tell(const std::string& line) const {
    std::printf("%s (epoch %lld, fenced %llu)\n", line.c_str(),
                static_cast<long long>(reader.epoch),
                static_cast<unsigned long long>(metrics.fenced.load()));
    std::fflush(stdout);
  }
  void reach(std::string_view here) {
    if (here != point || written < kWrittenBefore) return;
    point.clear();
    tell("stopping");
    ::raise(SIGSTOP);
    tell("went on");
  }
  // A write to the database with our epoch.
  Status told(const char* what, Status status) const {
    if (!status) tell(std::string(what) + ": " + std::string(to_string(status.error().code)));
    return status;
  }
};

class PausingSource final : public Source {
 public:
  explicit PausingSource(Story& story) : story_(story), source_(story.reader, system_clock()) {}
  Status open() override { return source_.open(); }
  Status read(Batch& out, const Limits& limits, std::stop_token stop) override {
    const Status done = source_.read(out, limits, stop);
    if (!out.empty()) story_.reach("claimed");
    return done;
  }
  Status settle(const Batch& batch, std::span<const Settled> fates) override {
    return source_.settle(batch, fates);
  }
  Status flush() override {
    story_.reach("settling");
    return story_.told("settle", source_.flush());
  }

 private:
  Story& story_;
  postgres::PostgresSource source_;
};

class PausingSink final : public Sink {
 public:
  PausingSink(Story& story, const std::string& mailbox)
      : story_(story), sink_({.path = mailbox, .payload_bytes_max = 1000}, system_clock()) {}
  Status open() override { return sink_.open(); }
  Status submit(Events events) override {
    story_.tell("sent");
    const Status done = sink_.submit(events);
    story_.reach("sent");
    return done;
  }
  Result<bool> collect(std::span<Outcome> outcomes, Duration timeout) override {
    story_.reach("landing");
    const Result<bool> known = sink_.collect(outcomes, timeout);
    if (!known || !*known) return known;
    story_.written += outcomes.size();
    const auto is_new = [](const Outcome& outcome) { return outcome.fate == Fate::confirmed; };
    story_.tell("written, new " +
                std::to_string(std::count_if(outcomes.begin(), outcomes.end(), is_new)));
    story_.reach("confirmed");
    return known;
  }
  bool keeps_order_on_failure() const override { return sink_.keeps_order_on_failure(); }

 private:
  Story& story_;
  sqlite::MailboxSink sink_;
};

class PausingParking final : public Parking {
 public:
  explicit PausingParking(Story& story) : story_(story), parking_(story.reader) {}
  Status open() override { return parking_.open(); }
  Status blocked_keys(std::vector<OrderKey>& out, std::size_t keys_max) override {
    return parking_.blocked_keys(out, keys_max);
  }
  Status blocked_among(std::span<const OrderKey> keys, std::vector<OrderKey>& out) override {
    return parking_.blocked_among(keys, out);
  }
  Status park(std::span<const ParkRequest> requests) override {
    story_.reach("parking");
    return story_.told("park", parking_.park(requests));
  }
  Status take_due(Batch& out, std::vector<std::uint32_t>& attempts, const Limits& limits) override {
    return parking_.take_due(out, attempts, limits);
  }
  Status delivered(std::span<const EventId> ids) override {
    return story_.told("park", parking_.delivered(ids));
  }

 private:
  Story& story_;
  postgres::PostgresParking parking_;
};

class PausingLease final : public Lease {
 public:
  PausingLease(Story& story, Duration term)
      : story_(story), lease_(story.reader, system_clock(), std::to_string(::getpid()), term) {}
  Status acquire() override {
    const Status acquired = lease_.acquire();
    if (acquired) story_.tell("acquired");
    return acquired;
  }
  Status renew() override {
    story_.reach("renewing");
    return story_.told("renew", lease_.renew());
  }
  Status release() override { return lease_.release(); }
  TimePoint deadline() const override { return lease_.deadline(); }
  TimePoint renew_at() const override { return lease_.renew_at(); }

 private:
  Story& story_;
  postgres::PostgresLease lease_;
};

int main_of(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: dovetail_pausing_relay CONNINFO MAILBOX LEASE_MS [POINT]\n");
    return 2;
  }
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  Story story{.reader = {.conninfo = argv[1], .relay = "pausing"},
              .metrics = {},
              .point = argc > 4 ? argv[4] : ""};
  PausingSource source(story);
  PausingSink sink(story, argv[2]);
  PausingParking parking(story);
  PausingLease lease(story, std::chrono::milliseconds(std::atoi(argv[3])));
  RelayOptions options;
  options.batch_events_max = 5;  // several batches in flight, even with little to do
  options.idle_wait = std::chrono::milliseconds(20);
  const auto tell = [&story](const RelayNotice& notice) {
    story.tell(std::string(to_string(notice.kind)) + ": " + notice.text);
  };
  Relay relay(RelayPorts{source, sink, parking, lease, system_clock(), story.metrics, tell},
              options);
  Status ended;
  std::jthread thread([&](std::stop_token stop) { ended = relay.run(stop); });
  int signal = 0;
  ::sigwait(&signals, &signal);
  thread.request_stop();
  thread.join();
  (void)lease.release();
  return ended ? 0 : 1;
}

}  // namespace
}  // namespace dovetail

int main(int argc, char** argv) { return dovetail::main_of(argc, argv); }

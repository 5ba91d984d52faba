// A consumer's ports, each in a wrapper that ends or stops the process at a named point. The points
// are those at which a consumer can lose its life:
//
//   received             I1  events were read, nothing is done with them
//   inserted             I2  the inbox rows are written, the handler has not begun
//   applied              I3  the handler is done, nothing is committed
//   commit-unsent        I4  the consumer has sent COMMIT, and the server has not got it
//   commit-unread            the server has committed, and its answer is not read
//   commit-lost              the same, but the consumer lives and does not know
//   committed            I5  the effect is there, the source was not told
//   settled, flushed     I6  the source was told, and has it durably
//   counted              I7  an attempt is counted, and not made
//   parking, parked          before and behind the moment in which an event is durably parked
//   replaying, replayed      a parked event was taken to be tried again; it is done
//   revoking, revoked    I8  inside the callback that takes partitions of Kafka away
#pragma once

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/inbox/inbox.h"
#include "core/relay/lease.h"
#include "core/relay/parking.h"
#include "core/relay/source.h"
#include "servers/tcp_proxy.h"

namespace dovetail::shop {

// What happens, and when. One thread, the relay's.
class Doom {
 public:
  static constexpr int kExitCode = 137;

  // When `point` is reached for the `times`-th time. `stops`: by SIGSTOP, once.
  Doom(std::string point, std::int64_t times, bool stops)
      : point_(std::move(point)), every_(times), left_(times), stops_(stops) {}

  void reach(std::string_view here) {
    if (!is_due(here)) return;
    if (!stops_) die(here);
    point_.clear();
    tell("stopping at", here);
    ::raise(SIGSTOP);
    tell("went on from", here);
  }

  // The same for points inside a call. True: it is time.
  bool is_due(std::string_view here) {
    if (here != point_ || --left_ > 0) return false;
    left_ = every_;
    return true;
  }

  [[noreturn]] static void die(std::string_view here) {
    tell("died at", here);
    ::_exit(kExitCode);
  }

  static void tell(const char* what, std::string_view here) {
    std::printf("%s %.*s\n", what, static_cast<int>(here.size()), here.data());
    std::fflush(stdout);
  }

 private:
  std::string point_;
  std::int64_t every_;
  std::int64_t left_;
  bool stops_;
};

class DyingStore final : public InboxStore {
 public:
  // `link`: the proxy before the server, for points about COMMIT.
  DyingStore(Doom& doom, InboxStore& store, servers::TcpProxy& link)
      : doom_(doom), store_(store), link_(link) {}

  Result<bool> open() override { return store_.open(); }
  Status begin() override { return store_.begin(); }
  Status insert(Events events, std::span<Arrival> arrivals) override {
    Status done = store_.insert(events, arrivals);
    // Only events that were applied before: nothing can be lost.
    if (std::find(arrivals.begin(), arrivals.end(), Arrival::first) != arrivals.end())
      doom_.reach("inserted");
    return done;
  }
  Status apply(Events events) override {
    Status done = store_.apply(events);
    doom_.reach("applied");
    return done;
  }
  bool broke() const override { return store_.broke(); }
  Status commit(std::uint64_t applied, std::uint64_t duplicates) override {
    if (applied > 0) {
      if (doom_.is_due("commit-unsent")) die_on_the_way(false);
      if (doom_.is_due("commit-unread")) die_on_the_way(true);
      if (doom_.is_due("commit-lost")) {
        link_.lose_answers(0);
        Doom::tell("lost at", "commit-lost");
      }
    }
    Status done = store_.commit(applied, duplicates);
    if (applied > 0) doom_.reach("committed");
    return done;
  }
  void rollback() override { store_.rollback(); }
  Result<std::uint32_t> count_attempt(const EventId& id, std::int64_t change) override {
    Result<std::uint32_t> done = store_.count_attempt(id, change);
    if (change > 0) doom_.reach("counted");
    return done;
  }
  Status close() override { return store_.close(); }

 private:
  // Another thread ends the process while this one waits for the answer.
  void die_on_the_way(bool arrives) {
    if (!arrives) link_.stall();
    if (arrives) link_.lose_answers(0);
    std::thread([this, arrives] {
      if (!arrives) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      while (arrives && link_.counters().swallowed == 0) std::this_thread::yield();
      Doom::die(arrives ? "commit-unread" : "commit-unsent");
    }).detach();
  }

  Doom& doom_;
  InboxStore& store_;
  servers::TcpProxy& link_;
};

class DyingSource final : public Source {
 public:
  // `settles_first`: like auto-commit, it tells the source before anything has happened.
  // `is_watched`: whether the process may die now.
  DyingSource(
      Doom& doom, Source& source, bool settles_first,
      std::function<bool()> is_watched = [] { return true; })
      : doom_(doom),
        source_(source),
        settles_first_(settles_first),
        is_watched_(std::move(is_watched)) {}

  Status open() override { return source_.open(); }
  Status read(Batch& out, const Limits& limits, std::stop_token stop) override {
    DOVETAIL_TRY(source_.read(out, limits, stop));
    if (out.empty()) return {};
    reach("received");
    if (!settles_first_) return {};
    DOVETAIL_TRY(source_.settle(out, std::vector(out.size(), Settled::delivered)));
    return source_.flush();
  }
  Status settle(const Batch& batch, std::span<const Settled> fates) override {
    if (settles_first_) return {};
    Status done = source_.settle(batch, fates);
    has_settled_ = true;
    reach("settled");
    return done;
  }
  Status flush() override {
    Status done = source_.flush();
    if (has_settled_) reach("flushed");
    has_settled_ = false;
    return done;
  }
  Status keep_alive() override { return source_.keep_alive(); }

 private:
  void reach(std::string_view here) {
    if (is_watched_()) doom_.reach(here);
  }

  Doom& doom_;
  Source& source_;
  bool settles_first_;
  std::function<bool()> is_watched_;
  bool has_settled_ = false;
};

class DyingParking final : public Parking {
 public:
  DyingParking(Doom& doom, Parking& parking) : doom_(doom), parking_(parking) {}

  Status open() override { return parking_.open(); }
  Status blocked_keys(std::vector<OrderKey>& out, std::size_t keys_max) override {
    return parking_.blocked_keys(out, keys_max);
  }
  Status blocked_among(std::span<const OrderKey> keys, std::vector<OrderKey>& out) override {
    return parking_.blocked_among(keys, out);
  }
  Status park(std::span<const ParkRequest> requests) override {
    doom_.reach("parking");
    Status done = parking_.park(requests);
    doom_.reach("parked");
    return done;
  }
  Status take_due(Batch& out, std::vector<std::uint32_t>& attempts, const Limits& limits) override {
    Status done = parking_.take_due(out, attempts, limits);
    if (!out.empty()) doom_.reach("replaying");
    return done;
  }
  Status delivered(std::span<const EventId> ids) override {
    Status done = parking_.delivered(ids);
    doom_.reach("replayed");
    return done;
  }

 private:
  Doom& doom_;
  Parking& parking_;
};

}  // namespace dovetail::shop

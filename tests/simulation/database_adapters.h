// The relay's ports over the model of the producer's database: source by snapshot windows, lease,
// parking. Built like the real adapters: state in the database, every write with its epoch, nothing
// in destructors.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/relay/lease.h"
#include "core/relay/parking.h"
#include "core/relay/source.h"
#include "simulation/model_database.h"
#include "simulation/server.h"

namespace dovetail::sim {

// The producer's database as a server, and what the checker wants to know about it.
struct DatabaseServer {
  DatabaseServer(World& world, std::uint32_t lanes) : server(world, "database"), tables(lanes) {}

  // Records that a write with this epoch was accepted, and judges it by its own rule.
  void accepted(const char* write, std::uint32_t lane, std::uint64_t epoch);
  // `held`: an operator holds the relay.
  void note_parked(std::span<const ParkRequest> requests, bool held);

  Server server;
  ModelDatabase tables;
  WaitQueue changed;                     // a transaction committed or rolled back
  std::set<EventId> parked;              // at any time, until an operator comes
  std::set<EventId> parked_without_key;  // at any time, for any reason
  std::set<EventId> waiting;             // at any time
  std::set<EventId> put_aside;           // at any time, when a relay stopped
};

class SimLease final : public Lease {
 public:
  SimLease(DatabaseServer& database, std::uint32_t lane, std::string owner, Clock& clock);

  Status acquire() override;
  Status renew() override;
  Status release() override;
  Status release_drained() override;
  Hold hold() const override { return hold_; }
  TimePoint deadline() const override { return asked_at_ + term_ - term_ / 8; }
  TimePoint renew_at() const override { return asked_at_ + term_ / 3; }

  std::uint32_t lane() const { return lane_; }
  std::uint64_t epoch() const { return epoch_; }

 private:
  template <class Effect>
  Status call(std::string_view name, Effect effect);
  Status give_back(bool drained);

  DatabaseServer& database_;
  Connection connection_;
  std::uint32_t lane_;
  std::string owner_;
  Clock& clock_;
  Duration term_;
  LeaseWatch watch_{};
  TimePoint asked_at_{};
  std::uint64_t epoch_ = 0;
  Hold hold_ = Hold::none;
};

class OutboxSource final : public Source {
 public:
  // Tells `on_read` what it reads.
  OutboxSource(DatabaseServer& database, const SimLease& lease,
               std::function<void(const EventId&)> on_read);

  Status open() override;
  Status read(Batch& out, const Limits& limits, std::stop_token stop) override;
  Status settle(const Batch& batch, std::span<const Settled> fates) override;
  Status flush() override;

 private:
  struct Read {
    std::int64_t last;  // position of the batch's last event
    std::size_t events;
    Progress after;
  };
  Status read_page(Batch& out, const Limits& limits);
  Status check_run() const;

  DatabaseServer& database_;
  const SimLease& lease_;
  const std::function<void(const EventId&)> on_read_;
  Connection connection_;
  std::string run_{};  // the server's run, in which the rest was read
  Progress next_;      // where the next read starts
  Progress settled_;   // what the next flush writes
  std::deque<Read> unsettled_;
  std::size_t unsettled_events_ = 0;
  std::size_t unwritten_events_ = 0;  // settled since the last flush
};

class SimParking final : public Parking {
 public:
  SimParking(DatabaseServer& database, const SimLease& lease);

  Status open() override;
  Status blocked_keys(std::vector<OrderKey>& out, std::size_t keys_max) override;
  Status blocked_among(std::span<const OrderKey> keys, std::vector<OrderKey>& out) override;
  Status park(std::span<const ParkRequest> requests) override;
  Status take_due(Batch& out, std::vector<std::uint32_t>& attempts, const Limits& limits) override;
  Status delivered(std::span<const EventId> ids) override;

 private:
  template <class Write>
  Status write(std::string_view name, Write write);

  DatabaseServer& database_;
  const SimLease& lease_;
  Connection connection_;
};

}  // namespace dovetail::sim

// What `dovetail run` checks before it starts anything, so that the caller sees problems that can
// never work.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "commands/command.h"
#include "config/config.h"

namespace dovetail::app {

// A relay, or a consumer, which is a relay, too.
struct Job {
  const config::RelayConfig* relay;
  const config::ConsumerConfig* consumer = nullptr;

  const char* noun() const { return consumer == nullptr ? "relay" : "consumer"; }
};

// A daemon waits for unavailable stores, as it would later. With `until_idle`, relays that need
// them are taken out of `jobs`, and the others deliver; it fails if none is left.
class StartChecks {
 public:
  StartChecks(const config::Config& config, bool until_idle)
      : config_(config), until_idle_(until_idle) {}

  // Checks secrets, databases, and whether relays have the targets of the file.
  Expected<bool> check_stores(std::vector<Job>& jobs);
  // Connects once to every broker that is filled, to all at the same time. A relay reports itself
  // whether the broker that it reads answers; a script wants to know before. A silent broker delays
  // no other relay: `keeper` owns what the wait for it needs.
  Expected<bool> check_brokers(std::vector<Job>& jobs, const std::shared_ptr<const void>& keeper);
  // An unavailable store may come back; a missing function will not.
  Expected<bool> check_consumers(std::vector<Job>& jobs);

  // The jobs taken out, and why; empty: none.
  const std::string& away() const { return away_; }

 private:
  std::vector<const config::StoreConfig*> stores_of(const Job& job) const;
  bool uses(const Job& job, const config::StoreConfig& store) const;
  Status check_broker(const config::StoreConfig& store, bool is_filled) const;
  Expected<bool> check_store(const config::StoreConfig& store, std::vector<Job>& jobs);
  bool leave_out(std::vector<Job>& jobs, const Job& job, const Failure& failure);

  const config::Config& config_;
  const bool until_idle_;
  std::string away_;
};

}  // namespace dovetail::app

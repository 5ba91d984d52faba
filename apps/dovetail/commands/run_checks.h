// What `dovetail run` looks at before it starts anything, so that what will never work is said
// where somebody sees it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "commands/command.h"
#include "config/config.h"

namespace dovetail::app {

// A relay, or a consumer, which is one too.
struct Job {
  const config::RelayConfig* relay;
  const config::ConsumerConfig* consumer = nullptr;

  const char* noun() const { return consumer == nullptr ? "relay" : "consumer"; }
};

// A daemon waits for what is away, as it would later. With `until_idle` relays that need it are
// taken out of `jobs`, so that the others deliver; it fails when nothing is left to run.
class StartChecks {
 public:
  StartChecks(const config::Config& config, bool until_idle)
      : config_(config), until_idle_(until_idle) {}

  // Secrets, databases, and whether the relays belong to the targets that the file says.
  Expected<bool> check_stores(std::vector<Job>& jobs);
  // Connects once to every broker that is filled, to all at the same time. Whether a broker that is
  // read answers, the relay says; a script wants to know before. One that is silent keeps no other
  // relay waiting: `keeper` holds all that the wait for it needs.
  Expected<bool> check_brokers(std::vector<Job>& jobs, const std::shared_ptr<const void>& keeper);
  // What is away now may come back; a function that is missing will not.
  Expected<bool> check_consumers(std::vector<Job>& jobs);

  // Which jobs were taken out, and why; empty: none.
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

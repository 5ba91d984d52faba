#include "commands/run_checks.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <utility>

#include "assembly/consumer_lane.h"
#include "assembly/database.h"
#include "assembly/target.h"
#include "assembly/wiring.h"
#include "core/relay/target.h"
#include "host/errand.h"
#include "host/host.h"
#include "process/log.h"

namespace dovetail::app {

using namespace assembly;
namespace {

using config::LogLevel;

// How long to wait for brokers before the relays start without their answers.
constexpr auto kAnswerWait = std::chrono::seconds(1);

// Refuses a relay with another target here, where the caller sees it. The relay itself checks again
// whenever it connects.
Status check_targets(const config::Config& config, const StoreStatus& status,
                     const config::StoreConfig& store, const std::vector<Job>& jobs) {
  for (const Job& job : jobs) {
    if (&home_of(*job.relay, config) != &store) continue;
    for (const assembly::RelayStatus& reader : status.relays) {
      if (reader.name != job.relay->name || reader.target.empty()) continue;
      const std::string wanted = target_of(config, *job.relay);
      if (reader.target != wanted) return fail(other_target(reader.name, reader.target, wanted));
    }
  }
  return {};
}

Status check_writable(const StoreStatus& status) {
  if (!status.standby) return {};
  return fail(Errc::unavailable,
              "the server is a standby and accepts no writes; connect to the primary "
              "(target_session_attrs=read-write)");
}

}  // namespace

std::vector<const config::StoreConfig*> StartChecks::stores_of(const Job& job) const {
  std::vector<const config::StoreConfig*> stores{config_.find_store(job.relay->from),
                                                 config_.find_store(job.relay->to)};
  if (job.consumer == nullptr) return stores;
  for (const config::HandlerConfig& handler : job.consumer->handlers)
    if (!handler.store.empty()) stores.push_back(config_.find_store(handler.store));
  return stores;
}

bool StartChecks::uses(const Job& job, const config::StoreConfig& store) const {
  const auto stores = stores_of(job);
  return std::find(stores.begin(), stores.end(), &store) != stores.end();
}

// False: no job is left to run.
bool StartChecks::leave_out(std::vector<Job>& jobs, const Job& job, const Failure& failure) {
  away_ += (away_.empty() ? "" : "; ") + std::string(job.noun()) + " " + job.relay->name + ": " +
           failure.text;
  std::erase_if(jobs, [&job](const Job& one) { return one.relay == job.relay; });
  return !jobs.empty();
}

Expected<bool> StartChecks::check_stores(std::vector<Job>& jobs) {
  for (const config::StoreConfig& store : config_.stores) {
    if (std::none_of(jobs.begin(), jobs.end(), [&](const Job& job) { return uses(job, store); }))
      continue;
    if (const auto checked = check_store(store, jobs); !checked) return checked;
  }
  return true;
}

Expected<bool> StartChecks::check_store(const config::StoreConfig& store, std::vector<Job>& jobs) {
  if (const auto checked = check_secrets(store); !checked) return checked;
  const auto status = database_of(store)->status();
  const Status usable = status ? check_writable(*status) : Status(fail(status.error()));
  if (usable) {
    const Status bound = check_targets(config_, *status, store, jobs);
    if (!bound) return refuse_in(store, bound.error());
    // A daemon logs it and retries; a script needs the error.
    for (const assembly::RelayStatus& reader : status->relays) {
      if (!until_idle_ || reader.error.empty()) continue;
      if (std::any_of(jobs.begin(), jobs.end(),
                      [&](const Job& job) { return job.relay->name == reader.name; }))
        return refuse_in(store, {Errc::rejected, reader.error});
    }
    return true;
  }
  const auto failure = refuse_in(store, usable.error());
  if (usable.error().code == Errc::corrupt) return failure;
  if (!until_idle_) {
    log_line(LogLevel::warn, "", failure.value().text);
    return true;
  }
  if (failure.value().exit != Exit::unavailable) return failure;
  const std::vector<Job> all = jobs;
  for (const Job& job : all)
    if (uses(job, store)) (void)leave_out(jobs, job, failure.value());
  if (jobs.empty()) return failure;
  return true;
}

Status StartChecks::check_broker(const config::StoreConfig& store, bool is_filled) const {
  if (is_filled) return make_sink(store, system_clock())->open();
  if (!until_idle_ || store.scheme == config::StoreScheme::http) return {};
  const auto examined = database_of(store)->examine(config_);
  if (!examined && examined.error().code == Errc::unavailable) return fail(examined.error());
  return {};
}

Expected<bool> StartChecks::check_brokers(std::vector<Job>& jobs,
                                          const std::shared_ptr<const void>& keeper) {
  struct Check {
    Job job;
    const config::StoreConfig* store;
    std::future<Status> usable;
  };
  std::vector<Check> checks;
  for (const Job& job : jobs) {
    for (const std::string& name : {job.relay->from, job.relay->to}) {
      const config::StoreConfig& store = *config_.find_store(name);
      if (!store.is_broker()) continue;
      auto task = std::make_shared<std::packaged_task<Status()>>(
          [this, keeper, &store, is_filled = name == job.relay->to] {
            return check_broker(store, is_filled);
          });
      checks.push_back({job, &store, task->get_future()});
      run_errand([task] { (*task)(); });
    }
  }
  const auto end = std::chrono::steady_clock::now() + kAnswerWait;
  for (Check& check : checks) {
    const bool is_told = until_idle_ || check.usable.wait_until(end) == std::future_status::ready;
    const Status usable =
        is_told ? check.usable.get() : fail(Errc::unavailable, "it has not answered yet");
    if (usable) continue;
    const auto failure = refuse_in(*check.store, usable.error());
    if (failure.value().exit != Exit::unavailable) return failure;
    if (!until_idle_) {
      log_line(LogLevel::warn, check.job.relay->name, failure.value().text);
    } else if (!leave_out(jobs, check.job, failure.value())) {
      return failure;
    }
  }
  return true;
}

Expected<bool> StartChecks::check_consumers(std::vector<Job>& jobs) {
  const std::vector<Job> all = jobs;
  for (const Job& job : all) {
    if (job.consumer == nullptr) continue;
    const Status usable = check_handlers(config_, *job.consumer, system_clock());
    if (usable) continue;
    Failure failure = refuse(usable.error()).value();
    if (failure.exit == Exit::rejected) failure.exit = Exit::config;
    const bool is_away = failure.exit == Exit::unavailable;
    if (!is_away || (until_idle_ && !leave_out(jobs, job, failure)))
      return tl::unexpected(std::move(failure));
    if (!until_idle_) log_line(LogLevel::warn, job.relay->name, failure.text);
  }
  return true;
}

}  // namespace dovetail::app

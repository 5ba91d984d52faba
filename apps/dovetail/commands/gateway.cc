#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "assembly/database.h"
#include "commands/command_line.h"
#include "commands/commands.h"
#include "commands/output.h"
#include "config/units.h"
#include "host/host.h"
#include "process/log.h"
#include "process/signals.h"
#ifdef DOVETAIL_HAS_HTTP
#include "gateway/gateway.h"
#endif

namespace dovetail::app {

using namespace assembly;
namespace {

#ifdef DOVETAIL_HAS_HTTP

using config::LogLevel;

void log_notice(const config::GatewayConfig& config, const http::GatewayNotice& notice) {
  LogLevel level = LogLevel::debug;
  switch (notice.level) {
    case http::GatewayNotice::Level::debug:
      break;
    case http::GatewayNotice::Level::info:
      level = LogLevel::info;
      break;
    case http::GatewayNotice::Level::warn:
      level = LogLevel::warn;
      break;
    case http::GatewayNotice::Level::error:
      level = LogLevel::error;
      break;
  }
  if (notice.key.empty())
    log_line(level, config.options.name, notice.text);
  else
    log_line(level, config.options.name, notice.text, {{"key", notice.key}});
}

// Each request needs a descriptor, plus a few more.
void raise_descriptor_limit(const config::GatewayConfig& config) {
  const http::GatewayOptions& options = config.options;
  const rlim_t wanted =
      2 * (options.endpoint.waiting_max + options.requests_max + options.connections) + 256;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  if (::setrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur == wanted) return;
  log_line(LogLevel::warn, config.options.name,
           "the limit of open files is too low for waiting_max and requests_max; raise the "
           "limit or lower them");
}

Json json_of(const http::GatewayCounts& counts) {
  return {{"executed", counts.executed},     {"replayed", counts.replayed},
          {"running", counts.running},       {"unknown", counts.unknown},
          {"mismatched", counts.mismatched}, {"lost", counts.lost},
          {"passed", counts.passed},         {"refused", counts.refused}};
}

void log_counts(const config::GatewayConfig& config, std::string_view message,
                const http::GatewayCounts& counts, std::uint64_t pruned) {
  log_line(LogLevel::info, config.options.name, message,
           {{"executed", std::to_string(counts.executed)},
            {"replayed", std::to_string(counts.replayed)},
            {"running", std::to_string(counts.running)},
            {"unknown", std::to_string(counts.unknown)},
            {"mismatched", std::to_string(counts.mismatched)},
            {"lost", std::to_string(counts.lost)},
            {"passed", std::to_string(counts.passed)},
            {"refused", std::to_string(counts.refused)},
            {"pruned", std::to_string(pruned)}});
}

// Deletes expired rows and logs counts, in steps so small that no request waits for them.
class Janitor {
 public:
  Janitor(const http::Gateway& gateway, const config::GatewayConfig& config,
          const config::StoreConfig& store, Duration every)
      : gateway_(gateway), config_(config), store_(store), every_(every) {}
  ~Janitor() {
    thread_.request_stop();
    wake_.notify_one();
  }
  std::uint64_t pruned() const { return pruned_; }
  void start() {
    thread_ = std::jthread([this](std::stop_token stop) {
      std::unique_lock lock(mutex_);
      while (!wake_.wait_for(lock, stop, every_, [] { return false; }) && !stop.stop_requested())
        clean(stop);
    });
  }

 private:
  static constexpr std::size_t kStep = 1000;

  void clean(std::stop_token stop) {
    for (std::uint64_t step = kStep; step == kStep && !stop.stop_requested(); pruned_ += step) {
      const Result<std::uint64_t> done = database_of(store_)->prune_requests(kStep);
      if (!done) {
        log_line(LogLevel::warn, config_.options.name,
                 "cannot delete expired requests: " + done.error().text);
        break;
      }
      step = *done;
    }
    log_counts(config_, "so far", gateway_.counts(), pruned_);
  }

  const http::Gateway& gateway_;
  const config::GatewayConfig& config_;
  const config::StoreConfig& store_;
  const Duration every_;
  std::atomic<std::uint64_t> pruned_{0};
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;
};

Answer run_gateway(const config::GatewayConfig& config, const config::StoreConfig& store,
                   Duration every, bool json) {
  if (const auto usable = database_of(store)->check_requests(); !usable) {
    const auto failure = refuse_in(store, usable.error());
    if (failure.value().exit != Exit::unavailable) return failure;
    log_line(LogLevel::warn, config.options.name, failure.value().text);
  }
  raise_descriptor_limit(config);
  // Before any thread starts, so that only this thread takes the signals.
  block_stop_signals();
  std::jthread hurry;  // ends last: a final wait for the store may be interrupted, too
  http::Gateway gateway(
      config.options,
      [&] { return database_of(store)->make_request_store(config.options.store_patience); },
      system_clock(), [&config](const http::GatewayNotice& notice) { log_notice(config, notice); });
  DOVETAIL_OR_REFUSE(gateway.start());
  log_line(LogLevel::info, config.options.name, "listening",
           {{"address", config.options.endpoint.address},
            {"port", std::to_string(gateway.port())},
            {"service", config.options.service.url}});
  Janitor janitor(gateway, config, store, every);
  janitor.start();
  while (!wait_for_stop_signal(std::chrono::hours(1))) continue;
  log_line(LogLevel::info, config.options.name, "stopping: open requests may finish");
  hurry = std::jthread([](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      const auto again = wait_for_stop_signal(std::chrono::milliseconds(50));
      if (!again || !is_urgent(*again)) continue;
      log_line(LogLevel::warn, "", "second signal: exiting at once");
      ::_exit(128 + *again);
    }
  });
  const bool whole = gateway.stop(config.drain_timeout);
  if (!whole)
    log_line(LogLevel::warn, config.options.name,
             "requests were aborted: their outcome is unknown, see 'dovetail requests list'");
  const http::GatewayCounts counts = gateway.counts();
  log_counts(config, "stopped", counts, janitor.pruned());
  if (json) print_json({{"gateway", json_of(counts)}});
  return Exit::ok;
}

Answer gateway(const CommandContext& context) {
  const auto config = load(context);
  if (!config) return tl::unexpected(config.error());
  log_setup(config->log);
  if (!config->gateway)
    return refuse(Exit::config, config->file.string() + " has no [gateway] to run");
  const config::StoreConfig& store = *config->find_store(config->gateway->store);
  if (const auto checked = check_secrets(store); !checked) return tl::unexpected(checked.error());
  return run_gateway(*config->gateway, store, config->retention.every, context.json);
}

#else

Answer gateway(const CommandContext&) {
  return refuse(Exit::rejected,
                "this dovetail was built without HTTP; build it with DOVETAIL_HTTP=ON");
}

#endif

}  // namespace

void add_gateway(Command& app) {
  app.command(
      "gateway",
      "Run a proxy for an HTTP service, so that requests with an Idempotency-Key run once",
      "Runs the [gateway] of the config file until SIGTERM or SIGINT. Then open requests may "
      "finish; a\n"
      "second signal exits at once, which is safe, too. The first request with a key reaches "
      "the service,\n"
      "and its answer is stored; a repeat gets that answer. See docs/IDEMPOTENCY.md.",
      [](const CommandContext& context) { return gateway(context); });
}

}  // namespace dovetail::app

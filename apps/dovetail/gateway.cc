#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "commands.h"
#include "host/host.h"
#include "ops/log.h"
#include "ops/units.h"
#include "output.h"
#include "requests.h"
#include "stores.h"
#ifdef DOVETAIL_HAS_HTTP
#include "http/gateway.h"
#endif

namespace dovetail::app {

#ifdef DOVETAIL_HAS_HTTP

namespace {

using ops::LogLevel;

http::GatewayOptions options_of(const ops::GatewayConfig& config) {
  http::GatewayOptions options;
  options.name = config.name;
  options.endpoint.address = config.address;
  options.endpoint.port = config.port;
  options.endpoint.allow_remote = config.allow_remote;
  options.endpoint.remote_hint = "others could reach the service through \"" + config.address +
                                 "\"; set allow_remote if that is meant, or listen at 127.0.0.1";
  options.endpoint.cert_file = config.cert_file.string();
  options.endpoint.key_file = config.key_file.string();
  options.endpoint.body_bytes_max = config.request_bytes_max;
  options.endpoint.receive_timeout = config.receive_timeout;
  options.endpoint.waiting_max = config.waiting_max;
  options.endpoint.waiting_bytes_max = config.waiting_bytes_max;
  options.service.url = config.service;
  options.service.ca_file = config.service_ca_file.string();
  options.service.cert_file = config.service_cert_file.string();
  options.service.key_file = config.service_key_file.string();
  options.service.came_by_https = !config.cert_file.empty();
  options.service.connect_timeout = config.connect_timeout;
  options.service.timeout = config.timeout;
  options.service.response_bytes_max = config.response_bytes_max;
  options.methods = config.methods;
  options.key_required = config.key_required;
  options.quoted_only = config.quoted_only;
  options.client_headers = config.client_headers;
  options.keep = std::chrono::duration_cast<std::chrono::milliseconds>(config.keep);
  options.retry_unknown = config.retry_unknown;
  options.released_statuses = config.released_statuses;
  options.store_patience = config.store_timeout;
  options.place_patience = config.wait_max;
  options.lease = config.lease;
  options.requests_max = config.requests_max;
  options.connections = config.connections;
  return options;
}

void log_notice(const ops::GatewayConfig& config, const http::GatewayNotice& notice) {
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
    ops::log_line(level, config.name, notice.text);
  else
    ops::log_line(level, config.name, notice.text, {{"key", notice.key}});
}

// Each request has a descriptor, and a few more are needed.
void raise_descriptor_limit(const ops::GatewayConfig& config) {
  const rlim_t wanted = 2 * (config.waiting_max + config.requests_max + config.connections) + 256;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  if (::setrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur == wanted) return;
  ops::log_line(LogLevel::warn, config.name,
                "fewer files may be open than waiting_max and requests_max need; check the limit "
                "of open files");
}

Json json_of(const http::GatewayCounts& counts) {
  return {{"executed", counts.executed},     {"replayed", counts.replayed},
          {"running", counts.running},       {"unknown", counts.unknown},
          {"mismatched", counts.mismatched}, {"lost", counts.lost},
          {"passed", counts.passed},         {"refused", counts.refused}};
}

Answer run_gateway(const ops::GatewayConfig& config, const ops::StoreConfig& store, bool json) {
  if (const auto usable = kind_of(store).status(store); !usable) {
    const auto failure = refuse_in(store, usable.error());
    if (failure.value().exit != Exit::unavailable) return failure;
    ops::log_line(LogLevel::warn, config.name, failure.value().text);
  }
  raise_descriptor_limit(config);
  // Before any thread is started, so that one takes them: this one, when it looks.
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGTERM);
  ::sigaddset(&signals, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  http::Gateway gateway(
      options_of(config), [&store] { return make_request_store(store); }, system_clock(),
      [&config](const http::GatewayNotice& notice) { log_notice(config, notice); });
  DOVETAIL_OR_REFUSE(gateway.start());
  ops::log_line(LogLevel::info, config.name, "listening",
                {{"address", config.address},
                 {"port", std::to_string(gateway.port())},
                 {"service", config.service}});
  int signal = 0;
  ::sigwait(&signals, &signal);
  ops::log_line(LogLevel::info, config.name, "stopping: requests that are here may finish");
  std::thread hurry([signals] {
    int again = 0;
    ::sigwait(&signals, &again);
    ops::log_line(LogLevel::warn, "", "second signal: leaving at once");
    ::_exit(128 + again);
  });
  hurry.detach();
  const bool whole = gateway.stop(config.drain_timeout);
  if (!whole)
    ops::log_line(LogLevel::warn, config.name,
                  "requests were given up: their outcome is unknown, see 'dovetail requests list'");
  const http::GatewayCounts counts = gateway.counts();
  ops::log_line(LogLevel::info, config.name, "stopped",
                {{"executed", std::to_string(counts.executed)},
                 {"replayed", std::to_string(counts.replayed)},
                 {"lost", std::to_string(counts.lost)}});
  if (json) print_json({{"gateway", json_of(counts)}});
  return Exit::ok;
}

}  // namespace

Answer gateway(const Surroundings& around) {
  const auto config = load(around);
  if (!config) return tl::unexpected(config.error());
  ops::log_setup(config->log);
  if (!config->gateway)
    return refuse(Exit::config, config->file.string() + ": there is no [gateway] to run");
  return run_gateway(*config->gateway, *config->find_store(config->gateway->store), around.json);
}

#else

Answer gateway(const Surroundings&) {
  return refuse(Exit::rejected,
                "this dovetail was built without HTTP; build it with DOVETAIL_HTTP=ON");
}

#endif

}  // namespace dovetail::app

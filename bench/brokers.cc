// How fast our sinks are beside bare loops over the same client libraries, on real servers.
#include "brokers.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <string_view>

namespace dovetail::bench {

namespace {

struct Named {
  std::string_view name;
  void (*run)(Report&);
};

const std::vector<Named> kBrokers = {
#ifdef DOVETAIL_HAS_KAFKA
    {"kafka", bench_kafka},
#endif
#ifdef DOVETAIL_HAS_RABBITMQ
    {"rabbitmq", bench_rabbitmq},
#endif
#ifdef DOVETAIL_HAS_NATS
    {"nats", bench_nats},
#endif
#ifdef DOVETAIL_HAS_REDIS
    {"redis", bench_redis},
#endif
#ifdef DOVETAIL_HAS_HTTP
    {"http", bench_http},
#endif
};

int run(const Named& broker) {
  progress(fmt::format("{}:", broker.name));
  try {
    Report report("brokers_" + std::string(broker.name));
    broker.run(report);
    return report.finish();
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench: {}: {}\n", broker.name, error.what());
    return 2;
  }
}

// All brokers, or those that are named.
int run(const std::vector<std::string_view>& wanted) {
  for (const std::string_view name : wanted) {
    if (std::any_of(kBrokers.begin(), kBrokers.end(),
                    [&](const Named& one) { return one.name == name; }))
      continue;
    std::string known;
    for (const Named& one : kBrokers) known += " " + std::string(one.name);
    fmt::print(stderr, "bench: there is no broker '{}'; this program knows:{}\n", name, known);
    return 2;
  }
  int code = 0;
  for (const Named& one : kBrokers)
    if (wanted.empty() || std::find(wanted.begin(), wanted.end(), one.name) != wanted.end())
      code = std::max(code, run(one));
  return code;
}

}  // namespace

}  // namespace dovetail::bench

int main(int count, char** arguments) {
  return dovetail::bench::run({arguments + 1, arguments + count});
}

// Prunes a database, and dies once the server has received BYTES of its statements:
//
//   dovetail_dying_pruner CONNINFO BYTES
//
// If it reaches its end, it prints how many bytes there were.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "kit/dying.h"
#include "postgres/operate/maintenance.h"
#include "servers/tcp_proxy.h"

int main(int argc, char** argv) {
  using namespace dovetail;
  if (argc != 3) return 2;
  const std::string conninfo = argv[1];
  servers::TcpProxy link(std::atoi(conninfo.c_str() + conninfo.rfind("port=") + 5));
  std::thread([&link, bytes = std::strtoull(argv[2], nullptr, 10)] {
    while (link.counters().requests < bytes) std::this_thread::yield();
    shop::Doom::die("prune");
  }).detach();
  postgres::MaintenanceOptions options;
  options.batch_max = 2;
  const auto report = postgres::maintain(
      conninfo + " host=127.0.0.1 sslmode=disable port=" + std::to_string(link.port()), options);
  std::printf("%llu bytes, %s\n", static_cast<unsigned long long>(link.counters().requests),
              report ? "ok" : report.error().text.c_str());
  std::fflush(stdout);
  ::_exit(report ? 0 : 1);
}

// dovetail: one binary for the relay daemon and for the operator.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>

#include "commands/commands.h"
#include "host/errand.h"

namespace dovetail::app {
namespace {

constexpr const char* kIntroduction =
    "Dovetail carries the events of one service's database to another, so that none is lost and "
    "none is\n"
    "applied twice.";

constexpr const char* kFooter =
    "\nA first session:\n"
    "  dovetail init                write dovetail.toml, create the tables\n"
    "  dovetail publish --store orders --aggregate-type orders --key 17 \\\n"
    "                   --type OrderPlaced --payload '{\"total\": 3}'\n"
    "  dovetail run --until-idle    deliver everything, then stop\n"
    "  dovetail status              pending and parked events, and their age\n"
    "  dovetail demo                a shop whose processes are killed\n"
    "\nExit codes:\n"
    "  0 ok              1 the answer is no, or a guarantee is broken\n"
    "  2 wrong usage     3 wrong config\n"
    "  4 unavailable: locked, full, unreachable; try again\n"
    "  5 rejected input  6 corrupt store, or one of a newer version\n"
    "\nThe config file is ./dovetail.toml, $DOVETAIL_CONFIG or the argument of --config.\n"
    "'dovetail COMMAND --help' explains each command.";

int main_of(int argc, char** argv) {
  CommandLine line(kIntroduction, kFooter);
  for (const auto add : {add_init, add_run, add_publish, add_status, add_events, add_trace,
                         add_parked, add_gateway, add_requests, add_inbox, add_slots, add_relay,
                         add_reconcile, add_prune, add_doctor, add_config, add_demo, add_version})
    add(line.commands());
  return line.run(argc, argv);
}

}  // namespace
}  // namespace dovetail::app

int main(int argc, char** argv) {
  // If the reader of our output goes away, the relay must still drain.
  std::signal(SIGPIPE, SIG_IGN);
  int exit_code = static_cast<int>(dovetail::app::Exit::corrupt);
  try {
    exit_code = dovetail::app::main_of(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "dovetail: %s; this is a bug in dovetail\n", error.what());
  }
  if (dovetail::wait_for_errands(std::chrono::milliseconds(100))) return exit_code;
  // A thread still waits for a server. Exit without destroying static objects and without waiting
  // for it.
  std::fflush(nullptr);
  ::_exit(exit_code);
}

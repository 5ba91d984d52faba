// The main function of tests that need a PostgreSQL server: without one they say so aloud and count
// as skipped, never as passed.
#include <gtest/gtest.h>

#include <cstdio>

#include "servers/servers.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const dovetail::servers::Server server = dovetail::servers::find("postgres");
  if (server.conninfo.empty()) {
    std::fprintf(stderr, "SKIPPED: %s\n", server.missing.c_str());
    return 77;
  }
  return RUN_ALL_TESTS();
}

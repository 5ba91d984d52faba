// The main function of tests with real servers: if a server is missing, they print that and count
// as skipped, never as passed.
#include <gtest/gtest.h>

#include <cstdio>
#include <sstream>
#include <string>

#include "servers/servers.h"

namespace dovetail::servers {
extern const char* const needed;  // by this test; see servers.cmake
}

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  std::istringstream names(dovetail::servers::needed);
  for (std::string name; names >> name;) {
    const dovetail::servers::Server server = dovetail::servers::find(name);
    if (!server.conninfo.empty()) continue;
    std::fprintf(stderr, "SKIPPED: %s\n", server.missing.c_str());
    return 77;
  }
  return RUN_ALL_TESTS();
}

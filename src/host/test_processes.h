// Owners of leases for tests: processes that have ended.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "host/owner.h"

namespace dovetail {

inline std::string owner_text(const ProcessIdentity& identity) {
  return "dead:" + std::to_string(identity.pid) + "#1a2b3c@" + std::to_string(identity.pid) + "/" +
         std::to_string(identity.started) + "/" + identity.namespaces + "/" + identity.boot;
}

// A process that was killed and collected.
inline ProcessIdentity dead_process() {
  const pid_t child = ::fork();
  if (child == 0) {
    for (;;) ::pause();
  }
  ProcessIdentity identity = own_identity().value();
  identity.pid = child;
  identity.started = look_for_process(child).started;
  EXPECT_EQ(::kill(child, SIGKILL), 0);
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
  return identity;
}

}  // namespace dovetail

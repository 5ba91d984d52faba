// What programs that die in tests share: their arguments, and their way to end.
#pragma once

#include <signal.h>

#include <cstdlib>
#include <functional>
#include <map>
#include <stop_token>
#include <string>
#include <thread>

#include "kit/dying.h"

namespace dovetail::shop {

using Words = std::map<std::string, std::string>;

inline std::string word(const Words& words, const std::string& name, const std::string& otherwise) {
  const auto found = words.find(name);
  return found == words.end() ? otherwise : found->second;
}

// The pairs after the first two arguments.
inline Words words_of(int argc, char** argv) {
  Words words;
  for (int i = 3; i + 1 < argc; i += 2) words[argv[i]] = argv[i + 1];
  return words;
}

inline Doom doom_of(const Words& words) {
  return Doom(word(words, "--die", word(words, "--stop", "")),
              std::stoll(word(words, "--times", "1")), words.contains("--stop"));
}

inline int port_of(const std::string& conninfo) {
  return std::atoi(conninfo.c_str() + conninfo.rfind("port=") + 5);
}

inline sigset_t sigterm() {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGTERM);
  return signals;
}

// Call it before the first thread starts, so that all threads inherit it.
inline void hold_sigterm() {
  const sigset_t signals = sigterm();
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

// Runs until SIGTERM. Returns the exit code.
inline int run_until_told(const std::function<Status(std::stop_token)>& run) {
  const sigset_t signals = sigterm();
  Status ended;
  std::jthread thread([&](std::stop_token stop) { ended = run(stop); });
  int signal = 0;
  ::sigwait(&signals, &signal);
  thread.request_stop();
  thread.join();
  if (!ended) Doom::tell("ended:", ended.error().text);
  return ended ? 0 : 1;
}

}  // namespace dovetail::shop

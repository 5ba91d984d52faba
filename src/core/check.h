// An assertion that is always on. If it fails, dovetail has a bug, and the process ends. That is
// safe at any point, because a crash is safe at any point.
#pragma once

#include <cstdio>
#include <cstdlib>

#define DOVETAIL_CHECK(condition)                                                             \
  do {                                                                                        \
    if (!(condition)) [[unlikely]] {                                                          \
      std::fprintf(stderr, "%s:%d: broken assumption: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                           \
    }                                                                                         \
  } while (false)

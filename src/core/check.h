// An assertion that is always on. A failed one is a bug of ours: it ends the process, which is safe
// at any point, because every crash is.
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

// One fuzzer is one file: a check that must hold for any bytes, and some inputs to begin with.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

// Calls FUZZ_REQUIRE for what must hold.
void check_input(std::string_view input);

// Inputs worth changing a little.
std::vector<std::string_view> seed_inputs();

#define FUZZ_REQUIRE(condition)                                \
  do {                                                         \
    if (!(condition)) {                                        \
      std::fprintf(stderr, "does not hold: %s\n", #condition); \
      std::abort();                                            \
    }                                                          \
  } while (false)

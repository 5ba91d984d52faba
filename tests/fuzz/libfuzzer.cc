// The functions that libFuzzer calls.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "fuzz/fuzz.h"

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size);

// Writes the seeds in the code as files into the first folder. When folders are merged, that is the
// one to be kept small.
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  for (int i = 1; i < *argc; ++i) {
    const std::filesystem::path folder = (*argv)[i];
    if (folder.string().starts_with("-merge")) break;
    if (folder.string().starts_with("-")) continue;
    if (!std::filesystem::is_directory(folder)) break;
    for (const std::string_view seed : seed_inputs()) {
      const std::string name = "seed-" + std::to_string(std::hash<std::string_view>()(seed));
      std::ofstream(folder / name, std::ios::binary) << seed;
    }
    break;
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  check_input(std::string_view(reinterpret_cast<const char*>(bytes), size));
  return 0;
}

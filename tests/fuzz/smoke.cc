// A short run without libFuzzer, so that every test run uses the fuzzers: the kept corpus, the
// seeds, and seeds with a few random changes, from one fixed random seed.
//
//     NAME [FOLDER [RUNS]] FOLDER: tests/fuzz/corpus/NAME; it may be missing
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "core/clock.h"
#include "fuzz/fuzz.h"

namespace {

std::string changed(std::string text, const std::vector<std::string_view>& seeds,
                    dovetail::Random& random) {
  for (std::uint64_t changes = 1 + random.below(4); changes > 0; --changes) {
    const std::size_t at = random.below(text.size() + 1);
    switch (random.below(4)) {
      case 0:
        text.insert(at, 1, static_cast<char>(random.below(256)));
        break;
      case 1:
        text.erase(at, random.below(4));
        break;
      case 2:
        if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << random.below(8)));
        break;
      default:
        const std::string_view other = seeds[random.below(seeds.size())];
        text.insert(at, other.substr(random.below(other.size() + 1), random.below(16)));
    }
  }
  return text;
}

// Sorted by name, so that a failure is the same each time.
std::vector<std::string> kept_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  if (std::filesystem::is_directory(folder))
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<std::string> inputs;
  for (const auto& path : files) {
    std::ifstream file(path, std::ios::binary);
    inputs.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return inputs;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> kept = kept_in(argc > 1 ? argv[1] : "");
  const long runs = argc > 2 ? std::atol(argv[2]) : 50'000;
  for (const std::string& input : kept) check_input(input);
  const std::vector<std::string_view> seeds = seed_inputs();
  dovetail::Random random(20'260'101);
  for (const std::string_view seed : seeds) check_input(seed);
  for (long i = 0; i < runs; ++i) {
    check_input(changed(std::string(seeds[random.below(seeds.size())]), seeds, random));
  }
  std::printf("%zu kept, %zu seeds, %ld inputs\n", kept.size(), seeds.size(), runs);
}

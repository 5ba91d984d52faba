// A short run without libFuzzer, so that every test run uses the fuzzers: the kept corpus, the
// seeds, and seeds with a few random changes, from one fixed random seed.
//
//     NAME FILE [RUNS]   FILE: tests/fuzz/corpus/NAME
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>
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

[[noreturn]] void give_up(const std::string& file, const char* what) {
  std::fprintf(stderr, "%s: %s; ./dev fuzz NAME writes it anew\n", file.c_str(), what);
  std::exit(1);
}

// What tests/fuzz/corpus.py has packed.
std::vector<std::string> kept_in(const std::string& name) {
  std::ifstream file(name, std::ios::binary);
  if (!file) give_up(name, "cannot be read");
  std::vector<std::string> inputs;
  std::array<char, 4> head{};
  while (file.read(head.data(), head.size())) {
    std::size_t size = 0;
    for (const char c : head) size = size << 8 | static_cast<unsigned char>(c);
    std::string input(std::min<std::size_t>(size, 1 << 20), '\0');
    if (!file.read(input.data(), static_cast<std::streamsize>(input.size())) ||
        input.size() != size)
      give_up(name, "an input is cut off");
    inputs.push_back(std::move(input));
  }
  if (file.gcount() != 0 || inputs.empty()) give_up(name, "has no inputs, or is cut off");
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

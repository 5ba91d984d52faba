// A short run without libFuzzer, so that every test run keeps the fuzzers alive: seeds, and seeds
// changed at random in a few bytes, from one fixed seed.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

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

}  // namespace

int main(int argc, char** argv) {
  const long runs = argc > 1 ? std::atol(argv[1]) : 200'000;
  const std::vector<std::string_view> seeds = seed_inputs();
  dovetail::Random random(20'260'101);
  for (const std::string_view seed : seeds) check_input(seed);
  for (long i = 0; i < runs; ++i) {
    check_input(changed(std::string(seeds[random.below(seeds.size())]), seeds, random));
  }
  std::printf("%ld inputs\n", runs);
}

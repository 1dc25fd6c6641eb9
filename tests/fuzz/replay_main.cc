// Runs a fuzz target without libFuzzer: on its seeds and seeded random changes of them, or on given
// files, to repeat a failure that libFuzzer has found.
//
//   fuzz_replay npy                     the seeds and $BRAID_FUZZ_RUNS (3000) changes
//   fuzz_replay npy crash-da39a3ee      one input
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "tests/fuzz/fuzz_target.h"

// CMakeLists.txt lists the targets.
#define FUZZ_TARGET(name)                       \
  int FUZZ_INPUT(name)(const uint8_t*, size_t); \
  namespace braid {                             \
  std::vector<std::string> FUZZ_SEEDS(name)();  \
  }
#include "fuzz_targets.inc"
#undef FUZZ_TARGET

namespace braid {
namespace {

struct Target {
  std::string_view name;
  int (*run)(const uint8_t*, size_t);
  std::vector<std::string> (*seeds)();
};

constexpr Target kTargets[] = {
#define FUZZ_TARGET(name) {#name, FUZZ_INPUT(name), FUZZ_SEEDS(name)},
#include "fuzz_targets.inc"
#undef FUZZ_TARGET
};

using Random = std::mt19937_64;

constexpr size_t kMaxBytes = size_t{1} << 20;

size_t Below(size_t limit, Random* random) { return limit == 0 ? 0 : (*random)() % limit; }

// Returns a number at which readers are likely to fail.
uint64_t OddNumber(Random* random) {
  const int shift = static_cast<int>(Below(64, random));
  const uint64_t number = uint64_t{1} << shift;
  switch (Below(4, random)) {
    case 0:
      return number;
    case 1:
      return number - 1;
    case 2:
      return ~number + 1;
    default:
      return (*random)();
  }
}

void Overwrite(std::string* bytes, Random* random) {
  const uint64_t number = OddNumber(random);
  const size_t width = size_t{1} << Below(4, random);
  const size_t at = Below(bytes->size(), random);
  for (size_t i = 0; i < width && at + i < bytes->size(); ++i) {
    (*bytes)[at + i] = static_cast<char>(number >> (8 * i));
  }
}

void Change(std::string* bytes, const std::string& other, Random* random) {
  const size_t at = Below(bytes->size() + 1, random);
  const size_t size = Below(std::min<size_t>(bytes->size() - at, 64) + 1, random);
  switch (Below(8, random)) {
    case 0:
      bytes->erase(at, size);
      break;
    case 1:
      bytes->insert(at, bytes->substr(at, size));
      break;
    case 2:
      bytes->resize(at);
      break;
    case 3:
      bytes->replace(at, size, other.substr(Below(other.size() + 1, random), 64));
      break;
    case 4:
      bytes->insert(at, std::to_string(static_cast<int64_t>(OddNumber(random))));
      break;
    case 5:
      bytes->insert(at, 1, static_cast<char>((*random)()));
      break;
    case 6:
      Overwrite(bytes, random);
      break;
    default:
      if (at < bytes->size()) (*bytes)[at] = static_cast<char>((*bytes)[at] ^ 1 << (*random)() % 8);
  }
}

void Run(const Target& target, const std::string& bytes) {
  // A copy of exactly this size, so that a sanitizer detects every read beyond the end.
  const std::vector<uint8_t> copy(bytes.begin(), bytes.end());
  target.run(copy.data(), copy.size());
}

void RunChanges(const Target& target, int runs) {
  const std::vector<std::string> seeds = target.seeds();
  BRAID_CHECK(!seeds.empty());
  for (const std::string& seed : seeds) Run(target, seed);
  Run(target, "");
  for (int i = 0; i < runs; ++i) {
    Random random(i);
    std::string bytes = seeds[Below(seeds.size(), &random)];
    const std::string& other = seeds[Below(seeds.size(), &random)];
    for (size_t n = 1 + Below(4, &random); n > 0; --n) Change(&bytes, other, &random);
    if (bytes.size() <= kMaxBytes) Run(target, bytes);
  }
  std::cout << seeds.size() << " seeds, " << runs << " changes\n";
}

void RunFile(const Target& target, const char* path) {
  std::ifstream file(path, std::ios::binary);
  BRAID_CHECK(file.good()) << path;
  Run(target, {std::istreambuf_iterator<char>(file), {}});
}

}  // namespace
}  // namespace braid

int main(int argc, char** argv) {
  const std::string_view name = argc > 1 ? argv[1] : "";
  const auto* const target = std::ranges::find(braid::kTargets, name, &braid::Target::name);
  if (target == std::end(braid::kTargets)) {
    std::cerr << "usage: fuzz_replay TARGET [FILE...]; targets:";
    for (const braid::Target& known : braid::kTargets) std::cerr << " " << known.name;
    std::cerr << "\n";
    return 2;
  }
  for (int i = 2; i < argc; ++i) braid::RunFile(*target, argv[i]);
  const char* runs = std::getenv("BRAID_FUZZ_RUNS");
  if (argc == 2) braid::RunChanges(*target, runs == nullptr ? 3000 : std::atoi(runs));
  return 0;
}

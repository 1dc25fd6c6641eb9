// Runs a fuzz target without libFuzzer: on its seeds, on seeded random changes of them, or on the
// files given (to repeat what libFuzzer found).
//
//   fuzz_npy                     the seeds and $BRAID_FUZZ_RUNS (3000) changes
//   fuzz_npy crash-da39a3ee      one input
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>

#include "base/check.h"
#include "tests/fuzz/fuzz_target.h"

namespace braid {
namespace {

using Random = std::mt19937_64;

constexpr size_t kMaxBytes = size_t{1} << 20;

size_t Below(size_t limit, Random* random) { return limit == 0 ? 0 : (*random)() % limit; }

// Numbers at which readers go wrong.
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

void Run(const std::string& bytes) {
  // A copy of its own, so that a sanitizer sees every read beyond the end.
  const std::vector<uint8_t> copy(bytes.begin(), bytes.end());
  LLVMFuzzerTestOneInput(copy.data(), copy.size());
}

void RunChanges(int runs) {
  const std::vector<std::string> seeds = FuzzSeeds();
  BRAID_CHECK(!seeds.empty());
  for (const std::string& seed : seeds) Run(seed);
  Run("");
  for (int i = 0; i < runs; ++i) {
    Random random(i);
    std::string bytes = seeds[Below(seeds.size(), &random)];
    const std::string& other = seeds[Below(seeds.size(), &random)];
    for (size_t n = 1 + Below(4, &random); n > 0; --n) Change(&bytes, other, &random);
    if (bytes.size() <= kMaxBytes) Run(bytes);
  }
  std::cout << seeds.size() << " seeds, " << runs << " changes\n";
}

void RunFile(const char* path) {
  std::ifstream file(path, std::ios::binary);
  BRAID_CHECK(file.good()) << path;
  Run({std::istreambuf_iterator<char>(file), {}});
}

}  // namespace
}  // namespace braid

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) braid::RunFile(argv[i]);
  const char* runs = std::getenv("BRAID_FUZZ_RUNS");
  if (argc == 1) braid::RunChanges(runs == nullptr ? 3000 : std::atoi(runs));
  return 0;
}

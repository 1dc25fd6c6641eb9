// If $BRAID_FUZZ_SEEDS is set, a libFuzzer program writes the seeds of its target into that
// directory and exits.
#include <cstdlib>
#include <fstream>

#include "tests/fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  const char* directory = std::getenv("BRAID_FUZZ_SEEDS");
  if (directory == nullptr) return 0;
  int number = 0;
  for (const std::string& seed : braid::FuzzSeeds()) {
    const auto path = std::filesystem::path(directory) / ("seed-" + std::to_string(number++));
    std::ofstream(path, std::ios::binary) << seed;
  }
  std::exit(0);
}

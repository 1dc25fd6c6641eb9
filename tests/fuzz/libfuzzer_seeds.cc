// With $BRAID_FUZZ_SEEDS a libFuzzer program writes the target's seeds into that directory and
// ends.
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

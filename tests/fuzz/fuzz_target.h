// What fuzz targets share. Each defines two functions, which libFuzzer calls (CMake preset "fuzz")
// or, in an ordinary build, fuzz_replay:
//
//   namespace braid {
//   std::vector<std::string> FUZZ_SEEDS(name)() { ... }  // valid inputs, by writers of the project
//   }
//   // Runs the target on any bytes. Returns 0; a failure ends the process.
//   int FUZZ_INPUT(name)(const uint8_t* data, size_t size) { ... }
#ifndef BRAID_TESTS_FUZZ_FUZZ_TARGET_H_
#define BRAID_TESTS_FUZZ_FUZZ_TARGET_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#ifdef BRAID_LIBFUZZER
// libFuzzer's name; a program has one target.
#define FUZZ_SEEDS(name) FuzzSeeds
#define FUZZ_INPUT(name) LLVMFuzzerTestOneInput
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
namespace braid {
std::vector<std::string> FuzzSeeds();
}
#else
#define FUZZ_SEEDS(name) FuzzSeeds_##name
#define FUZZ_INPUT(name) FuzzInput_##name
#endif

namespace braid {

inline std::string_view AsText(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// Join several parts into one input, each after its length in four little-endian bytes, and split
// them again. SplitParts accepts any input and returns `count` parts, which are empty after its
// end.
std::string JoinParts(std::initializer_list<std::string_view> parts);
std::vector<std::string> SplitParts(std::string_view joined, size_t count);

// A temporary directory for readers that take a path; in memory if there is /dev/shm.
class FuzzDirectory {
 public:
  FuzzDirectory();
  FuzzDirectory(const FuzzDirectory&) = delete;
  FuzzDirectory& operator=(const FuzzDirectory&) = delete;
  ~FuzzDirectory();

  std::filesystem::path Put(const std::string& name, std::string_view bytes) const;
  std::string Get(const std::string& name) const;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace braid

#endif  // BRAID_TESTS_FUZZ_FUZZ_TARGET_H_

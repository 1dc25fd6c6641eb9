// The functions that every fuzz target of this folder defines, for libFuzzer (CMake preset "fuzz")
// and for fuzz_replay in an ordinary build.
#ifndef BRAID_TESTS_FUZZ_FUZZ_TARGET_H_
#define BRAID_TESTS_FUZZ_FUZZ_TARGET_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

// Runs the target on any bytes. Returns 0; a failure ends the process.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace braid {

// Returns valid inputs, made by the writers of the project.
std::vector<std::string> FuzzSeeds();

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

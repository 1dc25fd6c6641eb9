// What every fuzz target of this folder defines, for libFuzzer (CMake preset "fuzz") and for the
// replay of an ordinary build alike.
#ifndef BRAID_TESTS_FUZZ_FUZZ_TARGET_H_
#define BRAID_TESTS_FUZZ_FUZZ_TARGET_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

// One run on any bytes: must return, whatever they are. Always 0.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace braid {

// Good inputs to begin with, made by the project's own writers.
std::vector<std::string> FuzzSeeds();

inline std::string_view AsText(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// Several parts in one input: before each its length, in four little-endian bytes. Split takes what
// it gets: `count` parts, empty where there are no bytes left.
std::string JoinParts(std::initializer_list<std::string_view> parts);
std::vector<std::string> SplitParts(std::string_view joined, size_t count);

// A directory of this process for readers that take a path; in memory where there is /dev/shm.
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

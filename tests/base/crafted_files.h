// Files made for a test, in a directory of their own that goes away with the object.
#ifndef BRAID_TESTS_BASE_CRAFTED_FILES_H_
#define BRAID_TESTS_BASE_CRAFTED_FILES_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace braid {

class CraftedFiles {
 public:
  CraftedFiles();
  CraftedFiles(const CraftedFiles&) = delete;
  CraftedFiles& operator=(const CraftedFiles&) = delete;
  ~CraftedFiles();

  // Writes a file, making its folders, and returns its path.
  std::filesystem::path Write(const std::string& name, std::string_view bytes) const;
  std::filesystem::path directory() const { return directory_; }

 private:
  std::filesystem::path directory_;
};

// One gzip member, one Zstandard frame.
std::string Gzip(std::string_view bytes);
std::string Zstd(std::string_view bytes);
std::string ZstdWithChecksum(std::string_view bytes);

// Lines of random words, about `num_bytes` in all; the last ends in a newline.
std::string RandomLines(uint64_t seed, size_t num_bytes);

}  // namespace braid

#endif  // BRAID_TESTS_BASE_CRAFTED_FILES_H_

// Generated input files, in a directory that is removed with the object.
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

  // Writes a file, creates its parent directories, and returns its path.
  std::filesystem::path Write(const std::string& name, std::string_view bytes) const;
  std::filesystem::path directory() const { return directory_; }

 private:
  std::filesystem::path directory_;
};

// Compress to one gzip member or one Zstandard frame.
std::string Gzip(std::string_view bytes);
std::string Zstd(std::string_view bytes);
std::string ZstdWithChecksum(std::string_view bytes);

// Returns lines of random words of about `num_bytes` in total; the last ends with a newline.
std::string RandomLines(uint64_t seed, size_t num_bytes);

}  // namespace braid

#endif  // BRAID_TESTS_BASE_CRAFTED_FILES_H_

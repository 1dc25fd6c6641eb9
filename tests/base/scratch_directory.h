// A temporary directory of a test, and functions that damage files in it.
#ifndef BRAID_TESTS_BASE_SCRATCH_DIRECTORY_H_
#define BRAID_TESTS_BASE_SCRATCH_DIRECTORY_H_

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace braid {

class ScratchDirectory {
 public:
  ScratchDirectory() {
    std::string name = testing::TempDir() + "/braid-XXXXXX";
    path_ = mkdtemp(name.data());
  }
  ~ScratchDirectory() { std::filesystem::remove_all(path_); }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

inline void PutFile(const std::filesystem::path& path, const std::string& bytes) {
  std::filesystem::remove(path);  // truncating a file makes some file systems flush it
  std::ofstream(path, std::ios::binary) << bytes;
}

inline std::string GetFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::string FromHex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

// Replaces one byte in place.
inline void PutByte(const std::filesystem::path& path, size_t offset, char byte) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(offset));
  file.put(byte);
}

// Calls `check(is_truncation)` with every single bit of the file flipped and with the file
// truncated to every shorter length, then restores it.
template <class Check>
void ForEachDamage(const std::filesystem::path& path, Check check) {
  const std::string whole = GetFile(path);
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    SCOPED_TRACE("bit " + std::to_string(bit) + " flipped");
    const char byte = whole[bit / 8];
    PutByte(path, bit / 8, static_cast<char>(byte ^ (1 << (bit % 8))));
    check(false);
    PutByte(path, bit / 8, byte);
  }
  for (size_t length = whole.size(); length-- > 0;) {
    SCOPED_TRACE("cut to " + std::to_string(length) + " bytes");
    std::filesystem::resize_file(path, length);
    check(true);
  }
  PutFile(path, whole);
}

}  // namespace braid

#endif  // BRAID_TESTS_BASE_SCRATCH_DIRECTORY_H_

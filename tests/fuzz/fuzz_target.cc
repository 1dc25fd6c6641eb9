#include "tests/fuzz/fuzz_target.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "base/check.h"

namespace braid {

std::string JoinParts(std::initializer_list<std::string_view> parts) {
  std::string joined;
  for (const std::string_view part : parts) {
    for (int shift = 0; shift < 32; shift += 8) {
      joined += static_cast<char>(part.size() >> shift & 255);
    }
    joined += part;
  }
  return joined;
}

std::vector<std::string> SplitParts(std::string_view joined, size_t count) {
  std::vector<std::string> parts(count);
  for (std::string& part : parts) {
    if (joined.size() < 4) break;
    size_t size = 0;
    for (int i = 0; i < 4; ++i) size |= size_t{static_cast<unsigned char>(joined[i])} << (8 * i);
    joined.remove_prefix(4);
    part = joined.substr(0, size);
    joined.remove_prefix(part.size());
  }
  return parts;
}

FuzzDirectory::FuzzDirectory() {
  const std::filesystem::path memory = "/dev/shm";
  std::error_code error;
  const bool in_memory =
      std::filesystem::is_directory(memory, error) && access(memory.c_str(), W_OK | X_OK) == 0;
  const std::filesystem::path parent = in_memory ? memory : std::filesystem::temp_directory_path();
  std::string name = parent / "braid-fuzz-XXXXXX";
  BRAID_CHECK(mkdtemp(name.data()) != nullptr) << name;
  path_ = name;
}

FuzzDirectory::~FuzzDirectory() { std::filesystem::remove_all(path_); }

std::filesystem::path FuzzDirectory::Put(const std::string& name, std::string_view bytes) const {
  const std::filesystem::path path = path_ / name;
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  BRAID_CHECK(file >= 0 && write(file, bytes.data(), bytes.size()) == std::ssize(bytes)) << path;
  close(file);
  return path;
}

std::string FuzzDirectory::Get(const std::string& name) const {
  std::ifstream file(path_ / name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace braid

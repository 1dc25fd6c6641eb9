#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "base/file_error.h"

namespace braid {

absl::StatusOr<MappedFile> MappedFile::Open(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return SystemError("open", path, errno);
  const absl::Cleanup close = [descriptor] { ::close(descriptor); };
  struct stat status;
  if (::fstat(descriptor, &status) != 0) return SystemError("stat", path, errno);
  if (!S_ISREG(status.st_mode)) {
    return absl::InvalidArgumentError(path.string() + " is not a regular file");
  }
  MappedFile file;
  if (status.st_size == 0) return file;  // mmap rejects empty mappings
  void* data = ::mmap(nullptr, status.st_size, PROT_READ, MAP_SHARED, descriptor, 0);
  if (data == MAP_FAILED) return SystemError("map", path, errno);
  file.data_ = static_cast<const char*>(data);
  file.size_ = status.st_size;
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<char*>(data_), size_);
}

void ReleasePages(std::string_view mapped) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto start = reinterpret_cast<uintptr_t>(mapped.data());
  const uintptr_t begin = (start + page - 1) / page * page;
  const uintptr_t end = (start + mapped.size()) / page * page;
  // A failure leaves the pages where they are.
  if (begin < end) (void)::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace braid

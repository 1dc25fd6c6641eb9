#include "server/retention/disk_reserve.h"

#include <fcntl.h>
#include <unistd.h>

#include <system_error>
#include <utility>

namespace braid {
namespace {

namespace fs = std::filesystem;

constexpr uintmax_t kLeastFreeBytes = 16 * kReserveBytes;

fs::path ReserveIn(const fs::path& directory) { return directory / "reserve"; }

// Allocates kReserveBytes for the file, which it creates if necessary. If the disk has no space for
// all of them, deletes the file.
void AllocateReserve(const fs::path& file) {
  const int descriptor = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (descriptor < 0) return;
  // Not ftruncate(), which would make a sparse file that reserves nothing.
  const bool allocated = posix_fallocate(descriptor, 0, kReserveBytes) == 0;
  close(descriptor);
  if (!allocated) unlink(file.c_str());
}

}  // namespace

void KeepDiskReserve(const fs::path& directory) {
  const fs::path file = ReserveIn(directory);
  std::error_code error;
  if (fs::file_size(file, error) == static_cast<uintmax_t>(kReserveBytes)) return;
  const fs::space_info space = fs::space(directory, error);
  if (!error && space.available >= kLeastFreeBytes) AllocateReserve(file);
}

ReleasedReserve::ReleasedReserve(fs::path directory)
    : directory_(std::move(directory)), existed_(unlink(ReserveIn(directory_).c_str()) == 0) {}

ReleasedReserve::~ReleasedReserve() {
  if (existed_) {
    // Even where little space is free: the file took it before.
    AllocateReserve(ReserveIn(directory_));
  } else {
    KeepDiskReserve(directory_);
  }
}

}  // namespace braid

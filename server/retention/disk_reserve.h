// Disk space that is kept for deletions. A deletion records what it deletes before it frees
// anything, which would be impossible on a full file system.
#ifndef BRAID_SERVER_RETENTION_DISK_RESERVE_H_
#define BRAID_SERVER_RETENTION_DISK_RESERVE_H_

#include <cstdint>
#include <filesystem>

namespace braid {

// The size of the file "reserve", which suffices for the transactions of a deletion.
inline constexpr int64_t kReserveBytes = int64_t{1} << 20;

// Creates DIRECTORY/reserve, unless it exists or less than 16 times its size is free: then it would
// take the space that a deletion needs at that moment. Errors are ignored.
void KeepDiskReserve(const std::filesystem::path& directory);

// Frees the reserve of a directory during its lifetime. Requires: only one process at a time has
// one for the directory.
class ReleasedReserve {
 public:
  explicit ReleasedReserve(std::filesystem::path directory);
  // Creates the reserve again.
  ~ReleasedReserve();
  ReleasedReserve(const ReleasedReserve&) = delete;
  ReleasedReserve& operator=(const ReleasedReserve&) = delete;

 private:
  const std::filesystem::path directory_;
  const bool existed_;
};

}  // namespace braid

#endif  // BRAID_SERVER_RETENTION_DISK_RESERVE_H_

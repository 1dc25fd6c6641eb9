// The size of directory trees, and moving them aside.
#ifndef BRAID_SERVER_RETENTION_DISK_TREE_H_
#define BRAID_SERVER_RETENTION_DISK_TREE_H_

#include <cstdint>
#include <filesystem>

#include "absl/status/status.h"

namespace braid {

// Returns the disk space, in bytes, that removing a tree frees: without files that have other hard
// links. 0 when there is no such tree; files that vanish meanwhile are skipped.
int64_t DiskBytes(const std::filesystem::path& tree);

// Renames a directory within its parent, replacing the tree at `aside`, and flushes the parent. No
// effect when `directory` does not exist.
absl::Status RenameAside(const std::filesystem::path& directory,
                         const std::filesystem::path& aside);

}  // namespace braid

#endif  // BRAID_SERVER_RETENTION_DISK_TREE_H_

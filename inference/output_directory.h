// Writes a directory requested by name: it appears completely or not at all, and replaces an
// existing one only where permitted.
#ifndef BRAID_INFERENCE_OUTPUT_DIRECTORY_H_
#define BRAID_INFERENCE_OUTPUT_DIRECTORY_H_

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace braid {

// The requested path, and what it may replace.
struct OutputPlace {
  std::filesystem::path path;
  // Replace a directory that holds one of the files `markers`. When false, the path must not exist
  // or be empty.
  bool force = false;
  std::vector<std::string> markers;
};

// Files are created in `staging()`, PATH.tmp, and moved to PATH by Publish. A killed program leaves
// PATH.tmp, which the next Create removes.
class OutputDirectory {
 public:
  // Creates the staging directory. AlreadyExists or FailedPrecondition, with what to do, when PATH
  // holds something that may not be replaced.
  static absl::StatusOr<std::unique_ptr<OutputDirectory>> Create(const OutputPlace& place);

  OutputDirectory(const OutputDirectory&) = delete;
  OutputDirectory& operator=(const OutputDirectory&) = delete;
  // Removes what was not published.
  ~OutputDirectory();

  const std::filesystem::path& staging() const { return staging_; }
  const std::filesystem::path& path() const { return path_; }

  // Publishes `content`, which is staging() or a directory in it. The previous content of PATH
  // remains until then, and is restored if this fails.
  absl::Status Publish(const std::filesystem::path& content);

 private:
  OutputDirectory(std::filesystem::path path, std::filesystem::path staging)
      : path_(std::move(path)), staging_(std::move(staging)) {}

  std::filesystem::path path_;
  std::filesystem::path staging_;
};

}  // namespace braid

#endif  // BRAID_INFERENCE_OUTPUT_DIRECTORY_H_

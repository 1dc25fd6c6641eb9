// Writes a directory requested by name: it appears completely or not at all, and replaces an
// existing one only where permitted.
#ifndef BRAID_INFERENCE_OUTPUT_DIRECTORY_H_
#define BRAID_INFERENCE_OUTPUT_DIRECTORY_H_

#include <filesystem>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/staged_output.h"

namespace braid {

// The requested path, and what it may replace.
struct OutputPlace {
  std::filesystem::path path;
  // When false, the path must not exist or be empty.
  bool force = false;
  // With `force`, decides whether a directory with content may be replaced (replaceable_output.h).
  std::function<absl::Status(const std::filesystem::path& directory)> check_replaceable;
};

// Files are created in `staging()`, a hidden directory beside PATH, and moved to PATH by Publish.
// What a killed program leaves, the next Create for PATH removes (base/staged_output.h). Several
// programs may write to one PATH at a time: each publishes a whole directory, and the last one wins
// with `force`, the first one without.
class OutputDirectory {
 public:
  // Creates the staging directory and missing parents of PATH, which are removed with this object
  // unless PATH was published. AlreadyExists or FailedPrecondition, with what to do, when PATH
  // holds something that may not be replaced.
  static absl::StatusOr<std::unique_ptr<OutputDirectory>> Create(const OutputPlace& place);

  OutputDirectory(const OutputDirectory&) = delete;
  OutputDirectory& operator=(const OutputDirectory&) = delete;

  const std::filesystem::path& staging() const { return staging_; }
  const std::filesystem::path& path() const { return path_; }

  // Publishes `content`, which is staging() or a directory in it. The previous content of PATH
  // remains until then, and if this fails. Errors: those of Create, if PATH has changed meanwhile.
  absl::Status Publish(const std::filesystem::path& content);

 private:
  OutputDirectory(OutputPlace place, CreatedParents parents,
                  std::unique_ptr<StagingDirectory> directory)
      : place_(std::move(place)),
        path_(place_.path),
        parents_(std::move(parents)),
        directory_(std::move(directory)),
        staging_(directory_->path() / "new") {}

  const OutputPlace place_;  // with the absolute path
  const std::filesystem::path path_;
  const CreatedParents parents_;  // destroyed after the directory in it
  const std::unique_ptr<StagingDirectory> directory_;
  const std::filesystem::path staging_;
};

}  // namespace braid

#endif  // BRAID_INFERENCE_OUTPUT_DIRECTORY_H_

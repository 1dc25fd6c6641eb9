// A directory that somebody asked for by name: it appears whole or not at all,
// and replaces only what it may.
#ifndef BRAID_INFERENCE_HUGGINGFACE_OUTPUT_DIRECTORY_H_
#define BRAID_INFERENCE_HUGGINGFACE_OUTPUT_DIRECTORY_H_

#include <filesystem>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace braid {

// What may be there already.
struct OutputPlace {
  std::filesystem::path path;
  // Replace a directory that holds `marker`; without it only a missing or empty
  // one will do.
  bool force = false;
  std::string marker;
};

// Files are made in `staging()`, PATH.tmp, and moved to PATH by Publish. A killed
// program leaves PATH.tmp, which the next Create removes.
class OutputDirectory {
 public:
  // AlreadyExists or FailedPrecondition, with what to do, when PATH holds
  // something that may not be replaced.
  static absl::StatusOr<std::unique_ptr<OutputDirectory>> Create(const OutputPlace& place);

  OutputDirectory(const OutputDirectory&) = delete;
  OutputDirectory& operator=(const OutputDirectory&) = delete;
  // Removes what was not published.
  ~OutputDirectory();

  const std::filesystem::path& staging() const { return staging_; }
  const std::filesystem::path& path() const { return path_; }

  // Publishes `content`, staging() itself or a directory in it. What was at PATH
  // is there until then, and again when this fails.
  absl::Status Publish(const std::filesystem::path& content);

 private:
  OutputDirectory(std::filesystem::path path, std::filesystem::path staging)
      : path_(std::move(path)), staging_(std::move(staging)) {}

  std::filesystem::path path_;
  std::filesystem::path staging_;
};

}  // namespace braid

#endif  // BRAID_INFERENCE_HUGGINGFACE_OUTPUT_DIRECTORY_H_

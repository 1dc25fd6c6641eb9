// Files of an export as they arrive from a service: bounded memory, whole files or none.
#ifndef BRAID_CLIENT_METRICS_FILES_H_
#define BRAID_CLIENT_METRICS_FILES_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/atomic_file.h"
#include "braid/v1/analysis.pb.h"

namespace braid {

struct WrittenFile {
  std::filesystem::path path;
  int64_t bytes = 0;
};

// The path below `directory` of a file that a service calls RUN/NAME. InvalidArgument for a
// name that leads elsewhere: a server does not choose what is written where.
absl::StatusOr<std::filesystem::path> PlaceOfFile(const std::filesystem::path& directory,
                                                  const std::string& name);

// Writes the files of one run after the other.
class MetricsFiles {
 public:
  // Below `directory`, by the names that the service gives.
  static MetricsFiles Below(std::filesystem::path directory);
  // All into one file.
  static MetricsFiles Into(std::filesystem::path file);

  absl::Status Take(const v1::ExportMetricsChunk& chunk);
  // After the last chunk of a run.
  absl::Status FinishRun();

  const std::vector<WrittenFile>& written() const { return written_; }

 private:
  absl::Status Begin(const std::string& name);

  std::filesystem::path directory_;
  std::filesystem::path single_;
  std::unique_ptr<AtomicFile> file_;
  std::vector<WrittenFile> written_;
};

}  // namespace braid

#endif  // BRAID_CLIENT_METRICS_FILES_H_

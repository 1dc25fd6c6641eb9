// Writes the files of a metrics export as they arrive from a service, with bounded memory. A file
// appears only when it is complete.
#ifndef BRAID_CLIENT_METRICS_FILES_H_
#define BRAID_CLIENT_METRICS_FILES_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/staged_output.h"
#include "braid/v1/report.pb.h"

namespace braid {

struct WrittenFile {
  std::filesystem::path path;
  int64_t bytes = 0;
};

// Returns the path below `directory` of a file that a service names RUN/NAME. InvalidArgument for
// any other name, so that a server cannot write elsewhere.
absl::StatusOr<std::filesystem::path> PlaceOfFile(const std::filesystem::path& directory,
                                                  const std::string& name);

// A writer for the files of several runs, one run after another. Of a run that is not finished,
// nothing remains.
class MetricsFiles {
 public:
  // Writes files below `directory`, with the names that the service sends.
  static MetricsFiles Below(std::filesystem::path directory);
  // Writes all data into one file.
  static MetricsFiles Into(std::filesystem::path file);

  // Writes a chunk. Errors are those of the file system, and InvalidArgument as PlaceOfFile.
  absl::Status Take(const v1::ExportMetricsChunk& chunk);
  // Completes the files of a run after its last chunk.
  absl::Status FinishRun();

  const std::vector<WrittenFile>& written() const { return written_; }

 private:
  absl::Status Begin(const std::string& name);

  std::filesystem::path directory_;
  std::filesystem::path single_;
  std::vector<CreatedParents> parents_;  // destroyed after the file in the last of them
  std::unique_ptr<UserFile> file_;
  std::vector<WrittenFile> written_;
};

}  // namespace braid

#endif  // BRAID_CLIENT_METRICS_FILES_H_

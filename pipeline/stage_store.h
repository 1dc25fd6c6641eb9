// The content-addressed store of stage outputs: HOME/store/<stage>-<key16>/.
//
// Guarantees:
//  - a directory without ".tmp" at its end was published whole, by rename, with
//    its manifest; it is never changed afterwards;
//  - a directory is reused only when its manifest carries the full key and every
//    file has the length and CRC32C recorded; one found to be otherwise is removed
//    and made again, one that cannot be read just now is left alone;
//  - killing the process at any time leaves at most ".tmp" directories, which
//    the next attempt clears.
//
// Thread-safe: two threads that ask for the same key get one build. Requires one
// process at a time per store (the worker lock of job_worker.h).
#ifndef BRAID_PIPELINE_STAGE_STORE_H_
#define BRAID_PIPELINE_STAGE_STORE_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "formats/atomic_file.h"
#include "formats/manifest.h"
#include "formats/npy.h"
#include "formats/status_macros.h"

namespace braid {

// The output of a stage being made.
class StageWriter {
 public:
  StageWriter(std::filesystem::path directory, std::string kind, std::string key);

  // Where to put the files: the stage's ".tmp" directory.
  const std::filesystem::path& directory() const { return directory_; }

  // Records a committed file; `subdirectory` is "" or relative to directory().
  void Add(const FileSummary& file, int64_t records, std::string_view subdirectory = "");
  // The two files of an indexed dataset.
  void Add(const std::vector<FileSummary>& files, int64_t records,
           std::string_view subdirectory = "");
  // Writes and records a small file.
  absl::Status AddText(const std::string& name, std::string_view content, int64_t records);

  // Writes and records an array of rows of `row_shape` ({}: scalars).
  template <class T>
  absl::Status AddArray(const std::string& name, std::span<const T> values,
                        std::vector<int64_t> row_shape = {}) {
    ASSIGN_OR_RETURN(auto writer, NpyWriter<T>::Create(directory_ / name, std::move(row_shape)));
    RETURN_IF_ERROR(writer.AppendRows(values));
    const int64_t num_rows = writer.num_rows();
    ASSIGN_OR_RETURN(const FileSummary summary, writer.Commit());
    Add(summary, num_rows);
    return absl::OkStatus();
  }

  // Writes manifest.json.
  absl::Status SaveManifest() const;

 private:
  std::filesystem::path directory_;
  Manifest manifest_;
};

// A published stage.
struct StoredStage {
  std::filesystem::path directory;
  Manifest manifest;
  bool reused = false;  // it was there already
};

class StageStore {
 public:
  using Build = std::function<absl::Status(StageWriter&)>;

  explicit StageStore(std::filesystem::path root);

  std::filesystem::path DirectoryOf(std::string_view stage, std::string_view key) const;

  // The output of `stage` with this key (32 hexadecimal digits): what is stored,
  // or else what `build` makes. Errors: those of `build` and the file system;
  // after an error nothing is left under the key.
  absl::StatusOr<StoredStage> Produce(const std::string& stage, const std::string& key,
                                      const Build& build);

 private:
  absl::StatusOr<StoredStage> Reuse(const std::filesystem::path& directory,
                                    const std::string& key) const;
  absl::StatusOr<StoredStage> Make(const std::string& stage, const std::string& key,
                                   const std::filesystem::path& directory, const Build& build);
  std::shared_ptr<std::mutex> LockOf(const std::string& name);

  const std::filesystem::path root_;
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<std::mutex>> locks_;  // by directory name; guarded by mutex_
};

}  // namespace braid

#endif  // BRAID_PIPELINE_STAGE_STORE_H_

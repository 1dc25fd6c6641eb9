// The content-addressed store of stage outputs: HOME/store/<stage>-<key16>/.
//
// Guarantees:
//  - a directory without ".tmp" at its end was published whole, by rename, with
//    its manifest; it is never changed afterwards;
//  - a directory is reused only when its manifest carries the full key and every
//    file has the length and CRC32C recorded; one found to be otherwise is removed
//    and made again, one that cannot be read just now is left alone;
//  - killing the process at any time leaves at most ".tmp" directories. The next
//    attempt continues one behind the last point its stage saved (resume_point.h)
//    and clears one that has none, or none that can be trusted;
//  - the published bytes are the same however often a stage was interrupted.
//
// Thread-safe: two threads that ask for the same key get one build. Requires one
// process at a time per store (the worker lock of job_worker.h).
#ifndef BRAID_PIPELINE_STORE_STAGE_STORE_H_
#define BRAID_PIPELINE_STORE_STAGE_STORE_H_

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
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "formats/manifest.h"
#include "formats/npy.h"
#include "pipeline/store/resume_point.h"

namespace braid {

struct StageOptions {
  // Text, or what stands for it, after which a stage saves a point to resume from: the
  // most that is done twice after a kill. Changes no byte of the output.
  int64_t chunk_bytes = int64_t{64} << 20;
};

// The output of a stage being made.
class StageWriter {
 public:
  StageWriter(std::filesystem::path directory, std::string kind, std::string key,
              const StageOptions& options = {});

  // Where to put the files: the stage's ".tmp" directory. Files that are neither
  // recorded nor named by a resume point are removed before it is published.
  const std::filesystem::path& directory() const { return directory_; }

  // What an interrupted attempt had saved last; ResumePoint{} when there is nothing.
  const ResumePoint& resume_point() const { return resume_point_; }
  bool resumed() const { return resumed_; }

  // Whether a file of that name was added: for steps that an earlier attempt finished
  // before it saved a point.
  bool Has(std::string_view name) const;

  // Makes `point`, and the files added so far, what the next attempt starts from.
  // Requires every file that `point` names to be synced.
  absl::Status SaveResumePoint(ResumePoint point);

  // Counts text worked on; true when a chunk of it was since the last saved point, so
  // that a new one is due.
  bool CountWork(int64_t bytes) {
    worked_bytes_ += bytes;
    return worked_bytes_ >= options_.chunk_bytes;
  }
  int64_t chunk_bytes() const { return options_.chunk_bytes; }

  // Records a committed file; `subdirectory` is "" or relative to directory().
  void Add(const FileSummary& file, int64_t records, std::string_view subdirectory = "");
  // The two files of an indexed dataset.
  void Add(const std::vector<FileSummary>& files, int64_t records,
           std::string_view subdirectory = "");
  // Records a committed file that later attempts need but that is no part of the output,
  // such as a snapshot of counts. Its name must not be that of one in use.
  void AddScratch(const FileSummary& file);
  // What is recorded of it; nullptr when it is not.
  const ManifestEntry* FindScratch(std::string_view name) const;
  // No attempt needs it once the next point is saved, which removes it.
  void DropScratch(std::string_view name);
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

  // Takes up what an interrupted attempt with the same stage and key left. NOT_FOUND when
  // it left no point; DATA_LOSS when the point or a recorded file is damaged or another's.
  absl::Status TakeUp();

  // Writes manifest.json and removes whatever it does not name.
  absl::Status Finish() const;

 private:
  std::filesystem::path directory_;
  StageOptions options_;
  Manifest manifest_;
  std::vector<ManifestEntry> scratch_;
  std::vector<std::filesystem::path> dropped_;
  ResumePoint resume_point_;
  bool resumed_ = false;
  int64_t worked_bytes_ = 0;  // since the last saved point
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

  explicit StageStore(std::filesystem::path root, const StageOptions& options = {});

  std::filesystem::path DirectoryOf(std::string_view stage, std::string_view key) const;

  // The output of `stage` with this key (32 hexadecimal digits): what is stored,
  // or else what `build` makes, which continues from the writer's resume_point().
  // Errors: those of `build` and the file system. After one that may be mended (no
  // space, cancelled, ...) the ".tmp" directory stays if a point was saved in it.
  absl::StatusOr<StoredStage> Produce(const std::string& stage, const std::string& key,
                                      const Build& build);

 private:
  absl::StatusOr<StoredStage> Make(const std::string& stage, const std::string& key,
                                   const std::filesystem::path& directory, const Build& build);
  absl::Status Fill(const std::string& stage, const std::string& key,
                    const std::filesystem::path& temporary, const Build& build) const;
  std::shared_ptr<std::mutex> LockOf(const std::string& name);

  const std::filesystem::path root_;
  const StageOptions options_;
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<std::mutex>> locks_;  // by directory name; guarded by mutex_
};

}  // namespace braid

#endif  // BRAID_PIPELINE_STORE_STAGE_STORE_H_

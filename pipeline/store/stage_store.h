// The content-addressed store of stage outputs: HOME/store/<stage>-<first 16 digits of the key>/.
//
// Algorithm of Produce(stage, key): if the directory exists and verifies, reuse it. Otherwise build
// the output in the directory's name plus ".tmp", from the last resume point of an interrupted
// attempt if there is a valid one; write the manifest; flush; publish by rename. Verification reads
// every file once, so reuse takes time linear in the size of the output.
//
// Requires: one process at a time per store (the worker lock of job_worker.h).
// Guarantees:
//  - a directory whose name does not end in ".tmp" was published completely, by rename, with its
//    manifest, and is never changed afterwards;
//  - a directory is reused only if its manifest has the full key and every file has the recorded
//    length and CRC32C; a missing or damaged output is removed and built again, whereas an output
//    that cannot be read at the moment (too many open files, an I/O error) is left unchanged and
//    its error is returned;
//  - a process killed at any time leaves at most ".tmp" directories; the next attempt continues one
//    after its last resume point (resume_point.h), or clears it if it has no valid one;
//  - the published bytes do not depend on how often a stage was interrupted.
// Thread-safe: of two threads that produce the same key, one builds and the other reuses.
#ifndef BRAID_PIPELINE_STORE_STAGE_STORE_H_
#define BRAID_PIPELINE_STORE_STAGE_STORE_H_

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/atomic_file.h"
#include "base/directory_use.h"
#include "base/status_macros.h"
#include "formats/manifest.h"
#include "formats/npy.h"
#include "pipeline/store/resume_point.h"

namespace braid {

struct StageOptions {
  // Bytes of text, or of equivalent work, after which a stage saves a resume point: the maximum
  // work that is repeated after a kill. Does not affect the output.
  int64_t chunk_bytes = int64_t{64} << 20;
  // The home whose deletions spare an output from its Produce() until its StoredStage is gone
  // (base/directory_use.h). Empty: nothing is marked as in use.
  std::filesystem::path home = {};
};

// Writes the output of one stage. Not thread-safe.
class StageWriter {
 public:
  StageWriter(std::filesystem::path directory, std::string kind, std::string key,
              const StageOptions& options = {});

  // The directory to write the files to: the ".tmp" directory of the stage. Files that are not
  // recorded with Add() are removed before it is published.
  const std::filesystem::path& directory() const { return directory_; }

  // The last point that an interrupted attempt saved; ResumePoint{} if there is none.
  const ResumePoint& resume_point() const { return resume_point_; }
  bool resumed() const { return resumed_; }
  // The number of points saved for this output, including those of earlier attempts.
  int64_t num_resume_points() const { return num_resume_points_; }

  // Returns whether a file of that name was added, perhaps by an earlier attempt, so that the step
  // that writes it can be skipped.
  bool Has(std::string_view name) const;

  // Saves `point` and the list of files added so far as the state from which the next attempt
  // continues. Requires: every file in `point` is synced.
  absl::Status SaveResumePoint(ResumePoint point);

  // Counts the bytes of text processed. Returns true when they amount to a chunk since the last
  // saved point, so that a new point is due.
  bool CountWork(int64_t bytes) {
    worked_bytes_ += bytes;
    return worked_bytes_ >= options_.chunk_bytes;
  }
  int64_t chunk_bytes() const { return options_.chunk_bytes; }

  // Records a committed file in the manifest; `subdirectory` is "" or relative to directory().
  void Add(const FileSummary& file, int64_t records, std::string_view subdirectory = "");
  // Records several committed files, such as the two of an indexed dataset.
  void Add(const std::vector<FileSummary>& files, int64_t records,
           std::string_view subdirectory = "");
  // Records a committed file that later attempts need but that is not part of the output, such as a
  // snapshot of counts. Requires: no other file has its name.
  void AddScratch(const FileSummary& file);
  // Returns the record of a scratch file, or nullptr.
  const ManifestEntry* FindScratch(std::string_view name) const;
  // Drops a scratch file that is not needed after the next saved point, which removes it.
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

  // Loads the state of an interrupted attempt with the same stage and key. Errors: NOT_FOUND when
  // it saved no point; DATA_LOSS when the point or a recorded file is damaged or belongs to another
  // output.
  absl::Status LoadResumePoint();

  // Writes manifest.json and removes all files that it does not name.
  absl::Status Finish() const;

 private:
  std::filesystem::path directory_;
  StageOptions options_;
  Manifest manifest_;
  std::vector<ManifestEntry> scratch_;
  std::vector<std::filesystem::path> dropped_;
  ResumePoint resume_point_;
  bool resumed_ = false;
  int64_t num_resume_points_ = 0;
  int64_t worked_bytes_ = 0;  // since the last saved point
};

// A published stage.
struct StoredStage {
  std::filesystem::path directory;
  Manifest manifest;
  bool reused = false;  // whether it was stored before
  std::shared_ptr<const DirectoryUse> use = nullptr;
};

// The store of all stage outputs of a home directory.
class StageStore {
 public:
  using Build = std::function<absl::Status(StageWriter&)>;

  explicit StageStore(std::filesystem::path root, const StageOptions& options = {});

  std::filesystem::path DirectoryOf(std::string_view stage, std::string_view key) const;

  // Returns the output of `stage` with this key (32 hexadecimal digits): the stored one, or the one
  // that `build` writes, starting from the resume_point() of its writer.
  // Errors: those of `build` and of the file system. After an error that a later attempt may not
  // have (no space, cancelled, ...), a ".tmp" directory with a resume point is kept.
  // Waits while another thread builds this output; CANCELLED when `stop` returns true meanwhile.
  absl::StatusOr<StoredStage> Produce(
      const std::string& stage, const std::string& key, const Build& build,
      const std::function<bool()>& stop = [] { return false; });

 private:
  absl::StatusOr<StoredStage> Make(const std::string& stage, const std::string& key,
                                   const std::filesystem::path& directory, const Build& build);
  absl::Status Fill(const std::string& stage, const std::string& key,
                    const std::filesystem::path& temporary, const Build& build) const;
  // Waits until no other thread works on the directory `name`, and claims it.
  absl::Status Claim(const std::string& name, const std::function<bool()>& stop);
  void Release(const std::string& name);

  const std::filesystem::path root_;
  const StageOptions options_;
  std::mutex mutex_;
  std::condition_variable released_;
  std::set<std::string> claimed_;  // names of directories; guarded by mutex_
};

}  // namespace braid

#endif  // BRAID_PIPELINE_STORE_STAGE_STORE_H_

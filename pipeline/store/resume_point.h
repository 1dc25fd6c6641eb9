// From where an interrupted stage continues: what it has made durable.
//
// A stage works in chunks. After each it syncs the files it appends to and saves a
// point; whatever comes after the last saved point is cut off and done again by the
// next attempt, so a stage killed at any time redoes one chunk:
//
//   const ResumePoint& left = stage->resume_point();          // {} at a first attempt
//   ASSIGN_OR_RETURN(auto rows, NpyWriter<float>::Resume(path, {d}, left.files));
//   for (int64_t i = left.position; i < n;) {
//     ... append rows of one chunk, which ends at document i ...
//     ResumePoint point{.position = i};
//     RETURN_IF_ERROR(rows.Sync(&point.files));
//     RETURN_IF_ERROR(stage->SaveResumePoint(std::move(point)));
//   }
//
// On disk it is resume.json in the stage's ".tmp" directory, written by the commit
// protocol and guarded by a CRC; docs/pipeline.md describes the protocol.
#ifndef BRAID_PIPELINE_STORE_RESUME_POINT_H_
#define BRAID_PIPELINE_STORE_RESUME_POINT_H_

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/atomic_file.h"
#include "formats/manifest.h"

namespace braid {

inline constexpr char kResumePointName[] = "resume.json";

struct ResumePoint {
  std::string step = {};       // the pass over the corpus that `position` is in; "" for the first
  int64_t position = 0;        // the next document, list, ... of that pass
  DurablePrefixes files = {};  // that are being appended to
  nlohmann::json state = {};   // whatever else the stage needs; small
};

// A point and to what it belongs.
struct ResumeRecord {
  std::string stage;
  std::string key;
  std::vector<ManifestEntry> finished;  // committed files of the output
  std::vector<ManifestEntry> scratch;   // committed files that only the stage needs
  ResumePoint point;

  // Writes DIRECTORY/resume.json atomically.
  absl::Status Save(const std::filesystem::path& directory) const;
  // NOT_FOUND when there is none, DATA_LOSS when it is not as it was saved, to the byte.
  static absl::StatusOr<ResumeRecord> Load(const std::filesystem::path& directory);
};

}  // namespace braid

#endif  // BRAID_PIPELINE_STORE_RESUME_POINT_H_

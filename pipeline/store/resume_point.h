// Resume points: the durable state from which an interrupted stage continues.
//
// A stage works in chunks. After each chunk it syncs the files to which it appends and saves a
// point. The next attempt truncates the files to the last saved point and continues there, so a
// stage that is killed at any time repeats at most one chunk:
//
//   const ResumePoint& left = stage->resume_point();          // {} in the first attempt
//   ASSIGN_OR_RETURN(auto rows, NpyWriter<float>::Resume(path, {d}, left.files));
//   for (int64_t i = left.position; i < n;) {
//     ... append the rows of one chunk, which ends at document i ...
//     ResumePoint point{.position = i};
//     RETURN_IF_ERROR(rows.Sync(&point.files));
//     RETURN_IF_ERROR(stage->SaveResumePoint(std::move(point)));
//   }
//
// On disk a point is resume.json in the ".tmp" directory of the stage, written atomically after
// every file that it names was flushed, so the point found after a crash is always true. Its keys
// are `version` (1), those of ResumeRecord and ResumePoint (`files` maps names, NAME.tmp on disk,
// to `bytes` and `crc32c`; CRCs are numbers) and `record_crc32c`, the CRC-32C of the object without
// this key as compact JSON in this order: version, stage, key, step, position, finished, scratch,
// files, state, number. docs/pipeline.md describes the protocol.
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

// The state that a stage needs to continue.
struct ResumePoint {
  std::string step = {};       // the pass over the corpus; "" for the first
  int64_t position = 0;        // the next document, list, ... of that pass
  DurablePrefixes files = {};  // the synced prefixes of the files to which it appends
  nlohmann::json state = {};   // small further state of the stage
};

// A resume point with the stage and the files to which it belongs.
struct ResumeRecord {
  std::string stage;
  std::string key;
  std::vector<ManifestEntry> finished;  // committed files of the output
  std::vector<ManifestEntry> scratch;   // committed files that only the stage needs
  ResumePoint point;
  // The number of the point, from 1, among all that were saved for the output; 0, without a key, in
  // files of earlier versions.
  int64_t number = 0;

  // Writes DIRECTORY/resume.json atomically.
  absl::Status Save(const std::filesystem::path& directory) const;
  // Reads DIRECTORY/resume.json. Errors: NOT_FOUND when there is none; DATA_LOSS when it differs in
  // any byte from what was saved.
  static absl::StatusOr<ResumeRecord> Load(const std::filesystem::path& directory);
};

}  // namespace braid

#endif  // BRAID_PIPELINE_STORE_RESUME_POINT_H_

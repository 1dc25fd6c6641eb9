// The texts of evaluation data, from files of any kind: those of tasks (docs/tasks.md), held-out
// text of a user.
//
// | file | its texts |
// |---|---|
// | a JSON value, or one on each line | every string of it, but no keys |
// | .csv, .tsv | every record, cells separated by spaces |
// | .parquet | every value of its text columns |
// | any other, but .bin and .idx (tokens), which are refused | the whole file |
//
// Files other than .parquet may be compressed.
#ifndef BRAID_PIPELINE_CORPUS_EVALUATION_TEXTS_H_
#define BRAID_PIPELINE_CORPUS_EVALUATION_TEXTS_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace braid {

struct EvaluationFile {
  std::string path;
  // Length and checksum of the file as stored.
  int64_t bytes = 0;
  uint32_t crc32c = 0;
};

struct EvaluationText {
  std::string text;
  uint32_t file = 0;
  int64_t line = 0;  // line, or row, of the record, from 1; 0 for a text that is the whole file
};

struct EvaluationTexts {
  std::vector<EvaluationFile> files;
  std::vector<EvaluationText> texts;  // in the order of files and records

  // Returns "FILE:LINE", or "FILE".
  std::string PlaceOf(uint32_t text) const;
};

// Reads the given files and the files of the given directories, in the order of `paths` and sorted
// within directories, without hidden ones. Errors: NOT_FOUND, PERMISSION_DENIED; INVALID_ARGUMENT
// - for damaged compressed data, and damaged or encrypted Parquet files
// - if the paths contain no files, or if the files or their texts exceed 1 GiB
// - for directory entries that cannot be read or that link to directories
// - for token files, text in UTF-16 or UTF-32, binary files, and archives or compressed files other
//   than .gz and .zst
// - for compressed files that expand too far
// - for Parquet files without a text column, or with text in lists
absl::StatusOr<EvaluationTexts> ReadEvaluationTexts(std::span<const std::string> paths);

// Returns the error that ReadEvaluationTexts would return. Memory: that for the largest file.
absl::Status CheckEvaluationTexts(std::span<const std::string> paths);

}  // namespace braid

#endif  // BRAID_PIPELINE_CORPUS_EVALUATION_TEXTS_H_

// The comparison of a dataset with evaluation data, which a packed dataset keeps
// (docs/formats/dataset.md):
//
//   contamination.json     the files of evaluation data, with counts
//   contaminated_runs.npy  int64 [r]: the hashes of the runs of 13 words (word_runs.h) that
//                          evaluation data share with documents of the dataset, ascending
#ifndef BRAID_FORMATS_CONTAMINATION_H_
#define BRAID_FORMATS_CONTAMINATION_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/atomic_file.h"

namespace braid {

// A file of evaluation data.
struct ContaminationFile {
  std::string path;
  int64_t bytes = 0;
  uint32_t crc32c = 0;
  // Texts of at least 13 words, and shorter ones, which cannot match.
  int64_t num_texts = 0;
  int64_t num_short_texts = 0;
  // Texts that share a run with a document, and documents that share a run with a text.
  int64_t num_matched_texts = 0;
  int64_t num_matched_documents = 0;
};

struct Contamination {
  bool report_only = false;   // the documents were kept
  int64_t num_documents = 0;  // that share a run with any file
  std::vector<ContaminationFile> files;
  // The hashes of the runs that documents of the dataset have, ascending: none unless report_only.
  std::vector<uint64_t> runs;

  // Returns whether a file with this content was compared.
  bool Covers(int64_t bytes, uint32_t crc32c) const;
  // Returns whether a text shares none of `runs`.
  bool IsClean(std::string_view text) const;
};

// Writes both files and returns their summaries.
absl::StatusOr<std::vector<FileSummary>> WriteContamination(const std::filesystem::path& directory,
                                                            const Contamination& contamination);

// Returns nullopt when the directory has no contamination.json. Errors: DATA_LOSS for a malformed
// file.
absl::StatusOr<std::optional<Contamination>> ReadContamination(
    const std::filesystem::path& directory);

}  // namespace braid

#endif  // BRAID_FORMATS_CONTAMINATION_H_

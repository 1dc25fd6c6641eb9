// Detection of documents that share text with evaluation data (decontamination, as in Brown et al.
// 2020, arXiv 2005.14165, appendix C, with runs of 13 words for all data).
//
// Algorithm: index the runs of 13 words of the evaluation texts (word_run_index.h), as many texts
// at a time as memory allows, and look up the runs of each document. As words are compared after
// their hash, no document is reported without a common run.
#ifndef BRAID_PIPELINE_ORDERING_EVALUATION_OVERLAP_H_
#define BRAID_PIPELINE_ORDERING_EVALUATION_OVERLAP_H_

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "pipeline/store/document_store.h"
#include "pipeline/store/progress_callback.h"

namespace braid {

// One text of the evaluation data.
struct EvaluationPassage {
  std::string_view text;
  uint32_t file = 0;
};

// A document that shares a run with an evaluation text.
struct EvaluationMatch {
  uint32_t document = 0;
  uint32_t text = 0;         // the first of these texts
  std::string words;         // a run that both have, normalized
  std::set<uint32_t> files;  // the files of all texts that share a run with it
};

struct EvaluationOverlap {
  std::vector<EvaluationMatch> matches;  // ascending by document, each once
  // For each text: true if it has a run, and true if a document shares one of its runs.
  std::vector<bool> has_runs, matched;
  std::vector<uint64_t> runs;  // the hashes of the runs found in documents, ascending, each once
};

// Finds the documents of `candidates` that share a run with any of the texts. A run of which fewer
// than 7 words have a character other than digits, such as a list of labels, does not count.
//
// Requires: `candidates` is ascending. Guarantees: no shared run is missed; the same result for any
// number of threads and any max_index_bytes. Units of `progress`: documents. Errors: those of
// `progress`.
absl::StatusOr<EvaluationOverlap> FindEvaluationOverlap(const DocumentStore& documents,
                                                        std::span<const uint32_t> candidates,
                                                        std::span<const EvaluationPassage> texts,
                                                        const ProgressCallback& progress,
                                                        int64_t max_index_bytes = int64_t{64}
                                                                                  << 20);

}  // namespace braid

#endif  // BRAID_PIPELINE_ORDERING_EVALUATION_OVERLAP_H_

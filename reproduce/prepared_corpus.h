// Describes, checks and prepares the corpus of an experiment with a pipeline service.
#ifndef BRAID_REPRODUCE_PREPARED_CORPUS_H_
#define BRAID_REPRODUCE_PREPARED_CORPUS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/terminal/progress_board.h"
#include "reproduce/contrasts.h"
#include "reproduce/corpus_check.h"
#include "reproduce/reproduction_plan.h"
#include "rpc/pipeline_client.h"

namespace braid {

// A corpus that has been described and checked, but not prepared.
struct CheckedCorpus {
  v1::CorpusDescription description = {};
  // The given source with the fraction to hold out, and with clusters if the corpus has no domains.
  CorpusSource source = {};
  // Messages of the check.
  std::vector<std::string> notes = {};
};

// Reads the corpus once and checks it. FailedPrecondition for a corpus that is too small, with the
// size that is needed.
absl::StatusOr<CheckedCorpus> CheckSource(PipelineClient& client, const ReproductionPlan& plan,
                                          CorpusSource source, ProgressBoard& board);

struct PreparedCorpus {
  DatasetDirs dataset_dirs;
  // Those of the first dataset, in order of name.
  std::vector<DomainProfile> domains;
  // Number of domains with held-out documents.
  int num_heldout_domains = 0;
  // Messages about domains with little held-out text.
  std::vector<std::string> notes = {};
};

// Prepares the datasets of the experiment as jobs of the service. Jobs that exist already for the
// same text are reused.
absl::StatusOr<PreparedCorpus> PrepareDatasets(PipelineClient& client, const ReproductionPlan& plan,
                                               const CheckedCorpus& corpus, ProgressBoard& board);

}  // namespace braid

#endif  // BRAID_REPRODUCE_PREPARED_CORPUS_H_

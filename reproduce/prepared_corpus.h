// The corpus of an experiment on a service: described, checked, and prepared once per order.
#ifndef BRAID_REPRODUCE_PREPARED_CORPUS_H_
#define BRAID_REPRODUCE_PREPARED_CORPUS_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/terminal/progress_board.h"
#include "reproduce/contrasts.h"
#include "reproduce/corpus_check.h"
#include "reproduce/reproduction_plan.h"
#include "rpc/pipeline_client.h"

namespace braid {

// A corpus as it is before anything is done to it.
struct CheckedCorpus {
  v1::CorpusDescription description = {};
  // As asked for, with the share to hold out, and clusters for domains where the corpus names none.
  CorpusSource source = {};
  // What the check found, for people.
  std::vector<std::string> notes = {};
};

// Reads the corpus once. FailedPrecondition, with what is needed, for one that is too small.
absl::StatusOr<CheckedCorpus> CheckSource(PipelineClient& client, const ReproductionPlan& plan,
                                          CorpusSource source, ProgressBoard& board);

struct PreparedCorpus {
  std::map<v1::OrderMode, std::string> dataset_dirs;
  // By name.
  std::vector<DomainProfile> domains;
  // Domains of which something was held out.
  int num_heldout_domains = 0;
  // Domains with little held-out text, for people.
  std::vector<std::string> notes = {};
};

// Both orders as jobs of the service, found again where they were made of the same text before.
absl::StatusOr<PreparedCorpus> PrepareOrders(PipelineClient& client, const CheckedCorpus& corpus,
                                             ProgressBoard& board);

}  // namespace braid

#endif  // BRAID_REPRODUCE_PREPARED_CORPUS_H_

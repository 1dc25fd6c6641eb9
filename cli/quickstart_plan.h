// What `braid quickstart` does, as data: the corpus job in two orders and the
// four runs that are compared. Nothing here looks at a result.
#ifndef BRAID_CLI_QUICKSTART_PLAN_H_
#define BRAID_CLI_QUICKSTART_PLAN_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "braid/v1/pipeline.pb.h"
#include "braid/v1/training.pb.h"

namespace braid {

// Documents are cut to about 150 tokens, well below the sequence length: with
// longer ones a random order would fill whole instances with one document too,
// and the order could not matter.
inline constexpr int64_t kQuickstartDocumentBytes = 450;

// One of the four runs: {dense, moe} x {similarity, random}.
struct QuickstartRun {
  bool moe = false;
  v1::OrderMode order = v1::SIMILARITY;

  // "moe-similarity", ...
  std::string name() const;
};

// The similarity pair first: it is what a user wants to see.
std::vector<QuickstartRun> QuickstartRuns();

v1::CorpusSpec QuickstartCorpus(const std::vector<std::string>& paths, v1::OrderMode order);

// The run on the dataset of its order. The dense model has the shape of one
// expert; seed, data order and every other setting are the same for all.
v1::RunSpec QuickstartRunSpec(const QuickstartRun& run, const std::string& dataset_dir,
                              int64_t num_steps);

}  // namespace braid

#endif  // BRAID_CLI_QUICKSTART_PLAN_H_

// The plan of `braid quickstart` as data: the corpus job in two orders and the four runs that are
// compared.
#ifndef BRAID_CLI_QUICKSTART_PLAN_H_
#define BRAID_CLI_QUICKSTART_PLAN_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "braid/v1/corpus.pb.h"
#include "braid/v1/training.pb.h"

namespace braid {

// Documents are cut to about 150 tokens, well below the sequence length. Longer documents would
// fill whole instances in any order, and the order could not matter.
inline constexpr int64_t kQuickstartDocumentBytes = 450;

// One of the four runs: {dense, moe} x {similarity, random}.
struct QuickstartRun {
  bool moe = false;
  v1::OrderMode order = v1::SIMILARITY;

  // Returns "moe-similarity", "dense-random", ...
  std::string name() const;
};

// Returns the four runs, the pair in similarity order first.
std::vector<QuickstartRun> QuickstartRuns();

// Returns the corpus job over `paths` in the given order.
v1::CorpusSpec QuickstartCorpus(const std::vector<std::string>& paths, v1::OrderMode order);

// Returns the spec of a run on the dataset of its order. The dense model has the shape of one
// expert; seed, data order and all other settings are the same for all runs.
v1::RunSpec QuickstartRunSpec(const QuickstartRun& run, const std::string& dataset_dir,
                              int64_t num_steps);

}  // namespace braid

#endif  // BRAID_CLI_QUICKSTART_PLAN_H_

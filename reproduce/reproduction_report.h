// The result of an experiment and its JSON form.
#ifndef BRAID_REPRODUCE_REPRODUCTION_REPORT_H_
#define BRAID_REPRODUCE_REPRODUCTION_REPORT_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "reproduce/claim.h"
#include "reproduce/reproduction_plan.h"

namespace braid {

// The mean of a fine-tuned model's scores on one task.
struct TaskSummary {
  std::string task = {};
  // TaskScoring::name.
  std::string scoring = {};
  int64_t num_examples = 0;
  double answer_loss = 0;
  // The main figure, such as the share of right answers; NaN for figures of the whole task.
  double figure = 0;
};

// One run of the experiment.
struct ReproducedRun {
  std::string name = {};
  std::string arm = {};
  v1::OrderMode order = v1::SIMILARITY;
  uint64_t seed = 0;
  // The id of the run, such as "run-000012".
  std::string id = {};
  // Nats per token without first segments.
  double training_loss = 0;
  double heldout_loss = 0;
  // The held-out loss in bits per byte.
  double heldout_bits_per_byte = 0;
  // The task on which it was fine-tuned, and its scores; empty for other runs.
  std::string task = {};
  std::vector<TaskSummary> tasks = {};
};

struct Reproduction {
  // Not null; it outlives the result.
  const Experiment* experiment = nullptr;
  // "quick" or "full".
  std::string plan = {};
  // The command line and the version of the program.
  std::string command = {};
  std::string version = {};
  int64_t num_steps = 0;
  int64_t tokens_of_run = 0;
  // Passes of fine-tuning runs over the examples; 0 without such runs.
  double epochs = 0;
  // As in ReproductionPlan.
  int64_t tuning_steps = 0;
  double confidence = 0.95;
  // Files and directories on the host of the service that read them.
  std::vector<std::string> corpus_paths = {};
  // The number of held-out windows is that of each domain.
  DatasetDirs dataset_dirs = {};
  std::map<std::string, int64_t> heldout_windows = {};
  // The resolved spec of the first run of the main arm; the experiment has the differences of other
  // arms. It has no dataset if nothing was launched.
  v1::RunSpec spec = {};
  std::vector<DomainProfile> domains = {};
  // Messages of the corpus check, and runs without a result.
  std::vector<std::string> notes = {};
  std::vector<ReproducedRun> runs = {};
  std::vector<Claim> claims = {};
  // Wall-clock seconds, summed over repetitions of the command.
  double seconds = 0;
};

// Returns the summary of a run with its loss in the scoring `score` of these texts. Losses that
// were not measured are NaN.
ReproducedRun ReproducedRunOf(const ArmResult& result, const std::string& name,
                              const std::string& id, const PlannedScore& score,
                              const ScoredTexts& texts = {});

// Returns the number of held-out windows of each domain, which is the same for all models; empty
// without a score.
std::map<std::string, int64_t> HeldoutWindows(std::span<const ArmResult> results);

// Returns reproduction.json; docs/reproduction/results.md lists its fields. Numbers that are not
// finite are null.
std::string ReproductionJson(const Reproduction& reproduction);

}  // namespace braid

#endif  // BRAID_REPRODUCE_REPRODUCTION_REPORT_H_

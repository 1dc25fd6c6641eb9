// The plan of `braid reproduce` as data: the runs of an experiment, and the requests that train and
// score them. It does not depend on results.
#ifndef BRAID_REPRODUCE_REPRODUCTION_PLAN_H_
#define BRAID_REPRODUCE_REPRODUCTION_PLAN_H_

#include <cstdint>
#include <map>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "braid/v1/corpus.pb.h"
#include "braid/v1/evaluation.pb.h"
#include "braid/v1/training.pb.h"
#include "reproduce/experiment.h"

namespace braid {

// Documents are cut to about 150 tokens, well below the context length; corpus_check.h has the
// reason.
inline constexpr int64_t kReproductionDocumentBytes = 450;

struct ReproductionPlan {
  // Not null; it outlives the plan.
  const Experiment* experiment = nullptr;
  // "quick" or "full".
  std::string name = {};
  // As in PlanSize.
  int64_t num_steps = 0;
  int64_t heldout_windows = 0;
  int num_seeds = 0;
  double epochs = 0;
  int64_t max_examples = 0;
  // Steps of a fine-tuning run instead of `epochs`; 0: as many as these take.
  int64_t tuning_steps = 0;
  // Arms of the experiment, in its order.
  std::vector<ArmDefinition> arms = {};
  // In order of seed; fine-tuning runs follow the run whose model they start from.
  std::vector<PlannedRun> runs = {};

  int64_t num_tokens_of_run() const { return num_steps * experiment->tokens_of_step(); }
  // Tokens of the longest of the arms that are not fine-tuned.
  int64_t num_tokens_of_longest_run() const;
};

// Return the plans of --quick and --full.
ReproductionPlan QuickPlan(const Experiment& experiment);
ReproductionPlan FullPlan(const Experiment& experiment);
// Returns the plan with only these arms of the experiment, in its order, also those that --quick
// leaves out, and the arms whose models they start from. Errors: InvalidArgument names an arm that
// does not exist.
absl::StatusOr<ReproductionPlan> WithArms(ReproductionPlan plan,
                                          std::span<const std::string> names);
// Returns the plan with another number of seeds, which are numbered from 0.
ReproductionPlan WithSeeds(ReproductionPlan plan, int num_seeds);

// Returns the scorings of an arm that is tuned on the task. Requires arm.tuning.
std::span<const TaskScoring> ScoringsOf(const ArmDefinition& arm, const TunedTask& task);

// Returns the plan with its runs assigned to the slots of `hosts` in turn. Requires a slot.
ReproductionPlan OnHosts(ReproductionPlan plan, std::span<const v1::HostSlots> hosts);

// Returns whether runs of the arm have another batch than the experiment, or are longer than the
// runs of the plan.
bool HasOtherSteps(const Experiment& experiment, const ArmDefinition& arm);

// Returns "2 passes over the examples of a task" or, if `steps` is not 0, "50 steps": the length of
// a fine-tuning run.
std::string TuningLengthText(double epochs, int64_t steps);

// The text of an experiment.
struct CorpusSource {
  // Paths on the host of the service that reads them.
  std::vector<std::string> paths = {};
  // How records become documents, how these are embedded, and which are removed. PlannedCorpus()
  // sets everything else.
  v1::CorpusSpec corpus = {};
  // Derive this many domains by clustering documents instead of using those of the corpus; 0: use
  // those of the corpus.
  int32_t domain_clusters = 0;
  // Fraction of the documents that is held out.
  double heldout_fraction = 0.03;
  // Bytes of text, once the corpus has been described.
  int64_t num_bytes = 0;
};

// The directory of each dataset by its name.
using DatasetDirs = std::map<std::string, std::string>;

// Returns the fraction of a corpus of this size that gives the number of windows of the plan; at
// most 0.03. Documents are chosen by hash, so each domain has about its share of them.
double HeldoutFraction(const ReproductionPlan& plan, int64_t corpus_bytes);

v1::CorpusSpec PlannedCorpus(const ReproductionPlan& plan, const CorpusSource& source,
                             const DatasetDefinition& dataset);
// Returns the settings of a run that is not a fine-tuning (tuning_plan.h has those). Requires all
// datasets of the experiment.
v1::RunSpec PlannedRunSpec(const ReproductionPlan& plan, const PlannedRun& run,
                           const DatasetDirs& datasets);

// Returns the requests that score the model of a run on held-out text. Requires all datasets that
// its scores name, and the first of the experiment.
std::vector<v1::EvaluateRequest> PlannedEvaluations(const ReproductionPlan& plan,
                                                    const PlannedRun& run,
                                                    const std::string& run_id,
                                                    const DatasetDirs& datasets);

// Returns an id that depends only on the run and its settings, so that a repeated command finds the
// existing run.
std::string RunRequestId(const ReproductionPlan& plan, const PlannedRun& run,
                         const DatasetDirs& datasets);

// Sets seed, processes and host of a run.
void SetProcesses(const PlannedRun& run, v1::RunSpec* spec);

// Estimate the seconds on one thread with a second such run in parallel; accurate enough for a
// progress bar. A small corpus has less held-out text to score than planned.
double PlannedTrainingSeconds(const ReproductionPlan& plan, const PlannedRun& run);
double PlannedScoringSeconds(const ReproductionPlan& plan, const PlannedRun& run,
                             int64_t corpus_bytes);

// Estimated seconds.
struct PlanTime {
  double preparation = 0;
  double training = 0;
  double scoring = 0;

  double total() const { return preparation + training + scoring; }
};
// Estimates the time with `slots` concurrent runs, each on one thread.
PlanTime EstimateTime(const ReproductionPlan& plan, int slots, int64_t corpus_bytes);
// Returns the output of --dry-run --json.
std::string PlanJson(const ReproductionPlan& plan, int slots, int64_t corpus_bytes,
                     const std::vector<std::string>& notes);
// Prints the output of --dry-run: arms, runs and the estimated time.
void PrintPlan(const ReproductionPlan& plan, int slots, int64_t corpus_bytes, std::ostream& out);

}  // namespace braid

#endif  // BRAID_REPRODUCE_REPRODUCTION_PLAN_H_

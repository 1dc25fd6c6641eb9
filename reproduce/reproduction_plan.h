// The plan of `braid reproduce` as data: the arms of the experiment and their seeds. It does not
// depend on results.
#ifndef BRAID_REPRODUCE_REPRODUCTION_PLAN_H_
#define BRAID_REPRODUCE_REPRODUCTION_PLAN_H_

#include <cstdint>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "braid/v1/analysis.pb.h"
#include "braid/v1/pipeline.pb.h"
#include "braid/v1/training.pb.h"
#include "reproduce/arm_result.h"

namespace braid {

// Documents are cut to about 150 tokens, well below the context length; corpus_check.h has the
// reason.
inline constexpr int64_t kReproductionDocumentBytes = 450;
inline constexpr int32_t kReproductionSequenceLength = 512;
inline constexpr int32_t kReproductionBatchSize = 4;

// A model and its training. All arms have the same width, depth, data and seeds, and the same
// values of all settings that are not listed here.
struct ArmDefinition {
  std::string name = {};
  // Short description for readers.
  std::string description = {};
  v1::Router router = v1::CAUSAL_SEGMENT;
  int32_t num_experts = 8;
  int32_t segment_length = 64;
  v1::FirstSegment first_segment = v1::SELF_STOP_GRADIENT;
  // Dense warm-up, then upcycling; false: separate experts from the first step.
  bool dense_warmup = true;
  // Trained also on random order.
  bool both_orders = false;
  // Measured on one thread with a second such run in parallel (2 cores with AVX-512); a guide only.
  double tokens_per_second = 17000;
};

// Returns all arms. Those that most claims need come first.
const std::vector<ArmDefinition>& ArmDefinitions();

struct PlannedRun {
  ArmDefinition arm = {};
  v1::OrderMode order = v1::SIMILARITY;
  uint64_t seed = 0;
  // Host on which it is trained; empty: the host of the service.
  std::string host = {};

  // "moe-similarity-seed-0", ...
  std::string name() const;
};

// A scoring of the held-out split.
struct PlannedScore {
  ScoredRouting routing = ScoredRouting::kSegment;
  int32_t first_positions = 64;
};

struct ReproductionPlan {
  // "quick" or "full".
  std::string name = {};
  int64_t num_steps = 0;
  // Approximate number of held-out windows over all domains. All held-out documents are scored, so
  // a larger corpus holds out a smaller fraction.
  int64_t heldout_windows = 0;
  // In order of seed.
  std::vector<PlannedRun> runs = {};

  int64_t num_tokens_of_run() const {
    return num_steps * kReproductionBatchSize * kReproductionSequenceLength;
  }
};

// Returns the plan with one seed and 1.6 M tokens per run; about 10 minutes on 2 cores.
ReproductionPlan QuickPlan();
// Returns the plan with three seeds and 5.7 M tokens per run; about 90 minutes on 2 cores.
ReproductionPlan FullPlan();
// Returns the plan with another number of seeds, which are numbered from 0.
ReproductionPlan WithSeeds(ReproductionPlan plan, int num_seeds);

// Returns the plan with its runs assigned to the slots of `hosts` in turn. Requires a slot.
ReproductionPlan OnHosts(ReproductionPlan plan, std::span<const v1::HostSlots> hosts);

// The text of an experiment.
struct CorpusSource {
  // Paths on the host of the service that reads them.
  std::vector<std::string> paths = {};
  // How records become documents, and where these are cut.
  v1::IngestConfig ingest = {};
  // Derive this many domains by clustering documents instead of using those of the corpus; 0: use
  // those of the corpus.
  int32_t domain_clusters = 0;
  // Fraction of the documents that is held out.
  double heldout_fraction = 0.03;
};

// Returns the fraction of a corpus of this size that gives the number of windows of the plan; at
// most 0.03. Documents are chosen by hash, so each domain has about its share of them.
double HeldoutFraction(const ReproductionPlan& plan, int64_t corpus_bytes);

v1::CorpusSpec PlannedCorpus(const CorpusSource& source, v1::OrderMode order);
v1::RunSpec PlannedRunSpec(const ReproductionPlan& plan, const PlannedRun& run,
                           const std::string& dataset_dir);
// Returns the scorings that a run needs.
std::vector<PlannedScore> PlannedScores(const PlannedRun& run);

// Returns the requests that score the model of a run on the held-out split of `dataset_dir`.
std::vector<v1::EvaluateRequest> PlannedEvaluations(const PlannedRun& run,
                                                    const std::string& run_id,
                                                    const std::string& dataset_dir);

// Returns an id that depends only on the run and its settings, so that a repeated command finds the
// existing run.
std::string RunRequestId(const ReproductionPlan& plan, const PlannedRun& run,
                         const std::string& dataset_dir);

// Estimate the seconds on one thread with a second such run in parallel; accurate enough for a
// progress bar.
double PlannedTrainingSeconds(const ReproductionPlan& plan, const PlannedRun& run);
double PlannedScoringSeconds(const ReproductionPlan& plan, const PlannedRun& run);

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

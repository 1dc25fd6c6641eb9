// What `braid reproduce` runs, as data: the arms of the experiment, and which of them with which
// seeds. Nothing here looks at a result.
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

// Documents are cut to about 150 tokens, well below the context: see corpus_check.h.
inline constexpr int64_t kReproductionDocumentBytes = 450;
inline constexpr int32_t kReproductionSequenceLength = 512;
inline constexpr int32_t kReproductionBatchSize = 4;

// A model and how it is trained. All arms share width, depth, data, seeds and every setting that
// is not named here.
struct ArmDefinition {
  std::string name = {};
  // For people.
  std::string description = {};
  v1::Router router = v1::CAUSAL_SEGMENT;
  int32_t num_experts = 8;
  int32_t segment_length = 64;
  v1::FirstSegment first_segment = v1::SELF_STOP_GRADIENT;
  // Dense warm-up, then upcycling; false: experts of their own from the first step.
  bool dense_warmup = true;
  // Trained on random order, too.
  bool both_orders = false;
  // Measured on one thread beside a second such run (2 cores with AVX-512); a guide only.
  double tokens_per_second = 17000;
};

// The pairs that most claims rest on come first.
const std::vector<ArmDefinition>& ArmDefinitions();

struct PlannedRun {
  ArmDefinition arm = {};
  v1::OrderMode order = v1::SIMILARITY;
  uint64_t seed = 0;
  // Where it is trained; empty: where the service is.
  std::string host = {};

  // "moe-similarity-seed-0", ...
  std::string name() const;
};

// One scoring of the held-out split that a claim needs.
struct PlannedScore {
  ScoredRouting routing = ScoredRouting::kSegment;
  int32_t first_positions = 64;
};

struct ReproductionPlan {
  // "quick" or "full".
  std::string name = {};
  int64_t num_steps = 0;
  // About how many windows are held out, of all domains together: a larger corpus holds out a
  // smaller share of its documents, all of which are scored.
  int64_t heldout_windows = 0;
  // All runs of a seed before those of the next.
  std::vector<PlannedRun> runs = {};

  int64_t num_tokens_of_run() const {
    return num_steps * kReproductionBatchSize * kReproductionSequenceLength;
  }
};

// One seed, 1.6 M tokens a run; about 10 minutes on 2 cores.
ReproductionPlan QuickPlan();
// Three seeds, 5.7 M tokens a run; about 90 minutes on 2 cores.
ReproductionPlan FullPlan();
// The same plan with another number of seeds, from 0.
ReproductionPlan WithSeeds(ReproductionPlan plan, int num_seeds);

// The same plan with its runs dealt out to slots, each of which is one of a host. Requires a slot.
ReproductionPlan OnHosts(ReproductionPlan plan, std::span<const v1::HostSlots> hosts);

// The text of an experiment.
struct CorpusSource {
  // As the service that reads them knows them.
  std::vector<std::string> paths = {};
  // Which records become documents, and where they are cut.
  v1::IngestConfig ingest = {};
  // Domains are as many clusters of documents instead of what the corpus says; 0: what it says.
  int32_t domain_clusters = 0;
  // Share of the documents that is held out.
  double heldout_fraction = 0.03;
};

// The share of a corpus of this size that gives the plan's windows; at most 0.03. Documents are
// drawn by hash, so every domain keeps its share.
double HeldoutFraction(const ReproductionPlan& plan, int64_t corpus_bytes);

v1::CorpusSpec PlannedCorpus(const CorpusSource& source, v1::OrderMode order);
v1::RunSpec PlannedRunSpec(const ReproductionPlan& plan, const PlannedRun& run,
                           const std::string& dataset_dir);
// How the model of a run has to be scored.
std::vector<PlannedScore> PlannedScores(const PlannedRun& run);

// The requests that score the model of a run on the held-out split of `dataset_dir`.
std::vector<v1::EvaluateRequest> PlannedEvaluations(const PlannedRun& run,
                                                    const std::string& run_id,
                                                    const std::string& dataset_dir);

// The same for the same run of the same settings: repeating the command finds what it did.
std::string RunRequestId(const ReproductionPlan& plan, const PlannedRun& run,
                         const std::string& dataset_dir);

// Seconds on one thread beside another such run; guesses, good for the length of a progress bar.
double PlannedTrainingSeconds(const ReproductionPlan& plan, const PlannedRun& run);
double PlannedScoringSeconds(const ReproductionPlan& plan, const PlannedRun& run);

// Seconds, of which training takes the most.
struct PlanTime {
  double preparation = 0;
  double training = 0;
  double scoring = 0;

  double total() const { return preparation + training + scoring; }
};
// `lanes` runs at a time, each on one thread; a free lane takes the next run.
PlanTime EstimateTime(const ReproductionPlan& plan, int lanes, int64_t corpus_bytes);
// The same for programs.
std::string PlanJson(const ReproductionPlan& plan, int lanes, int64_t corpus_bytes,
                     const std::vector<std::string>& notes);
// --dry-run: arms, runs, estimated time.
void PrintPlan(const ReproductionPlan& plan, int lanes, int64_t corpus_bytes, std::ostream& out);

}  // namespace braid

#endif  // BRAID_REPRODUCE_REPRODUCTION_PLAN_H_

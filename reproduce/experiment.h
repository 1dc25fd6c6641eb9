// An experiment as data: the text, the arms and the claims that `braid reproduce` tests. Each paper
// or question has a folder that returns one.
#ifndef BRAID_REPRODUCE_EXPERIMENT_H_
#define BRAID_REPRODUCE_EXPERIMENT_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "braid/v1/pipeline.pb.h"
#include "braid/v1/training.pb.h"
#include "reproduce/arm_result.h"
#include "reproduce/claim.h"

namespace braid {

// Names of the datasets that most experiments have.
inline constexpr char kSimilarityData[] = "similarity";
inline constexpr char kRandomData[] = "random";

// A dataset that is prepared from the corpus of the experiment.
struct DatasetDefinition {
  std::string name = {};
  v1::OrderMode order = v1::SIMILARITY;
  // Passes that a run makes over the dataset, which then has that small a part of the text; 0: all
  // text that is not held out.
  double passes = 0;
};

// A model and its training. All arms have the same values of all settings that are not listed here.
struct ArmDefinition {
  std::string name = {};
  // Short description for readers.
  std::string description = {};
  // Merged into the settings of the experiment. Mixtures name datasets of the experiment.
  v1::RunSpec settings = {};
  // Trained once on each order.
  std::vector<v1::OrderMode> orders = {v1::SIMILARITY};
  // Dataset it is trained on; empty: the first one in the order of the run.
  std::string dataset = {};
  // Left out by --quick.
  bool full_only = false;
  // Measured on one thread with a second such run in parallel (2 cores with AVX-512); a guide only.
  double tokens_per_second = 17000;

  // Experts per layer; 1: dense.
  int32_t num_experts() const;
  // "moe_layers", "batch 16", ...: the settings on one line.
  std::string SettingsText() const;
};

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
  // Experts per token of a TOKEN_CHOICE model; 0: other models.
  int32_t active_experts = 0;
};

// The size of --quick or --full.
struct PlanSize {
  // Steps with the batch of Experiment::settings; arms with other batches have as many tokens.
  int64_t num_steps = 0;
  // Approximate number of held-out windows over all domains. All held-out documents are scored, so
  // a larger corpus holds out a smaller fraction.
  int64_t heldout_windows = 0;
  int num_seeds = 1;
};

struct Experiment {
  // As on the command line: "lory".
  std::string name = {};
  std::string title = {};
  // HTML that says whose claims are tested, and what a reader must know about models and numbers.
  std::string introduction = {};
  std::string limits = {};
  // "docs/reproduction/protocol.md".
  std::string protocol = {};
  int32_t sequence_length = 512;
  // Settings of all arms.
  v1::RunSpec settings = {};
  // The arm whose complete settings are shown.
  std::string main_arm = {};
  // All models are scored on the held-out split of the first.
  std::vector<DatasetDefinition> datasets = {};
  // Those that most claims need come first.
  std::vector<ArmDefinition> arms = {};
  PlanSize quick = {}, full = {};
  // Returns the scorings that a run needs, the main one first.
  std::function<std::vector<PlannedScore>(const PlannedRun&)> scores = {};
  ClaimSettings claim_settings = {};
  // Returns all claims in order, also those without measurements.
  std::function<std::vector<Claim>(const Evidence&, const ClaimSettings&)> claims = {};

  // Tokens of a step with the batch of `settings`.
  int64_t tokens_of_step() const;
};

}  // namespace braid

#endif  // BRAID_REPRODUCE_EXPERIMENT_H_

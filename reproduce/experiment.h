// An experiment as data: the text, the arms and the claims that `braid reproduce` tests. Each paper
// or question has a folder that returns one.
#ifndef BRAID_REPRODUCE_EXPERIMENT_H_
#define BRAID_REPRODUCE_EXPERIMENT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "braid/v1/conversion.pb.h"
#include "braid/v1/corpus.pb.h"
#include "braid/v1/training.pb.h"
#include "reproduce/arm_result.h"
#include "reproduce/claim.h"

namespace braid {

// Names of the datasets that most experiments have.
inline constexpr char kSimilarityData[] = "similarity";
inline constexpr char kRandomData[] = "random";
// Training instances in random order, but held-out documents that follow similar ones.
inline constexpr char kRelatedData[] = "related";
// Training instances of two runs of similar documents each.
inline constexpr char kTwoRunsData[] = "two-runs";

// A dataset that is prepared from the corpus of the experiment.
struct DatasetDefinition {
  std::string name = {};
  v1::OrderMode order = v1::SIMILARITY;
  // Passes that a run makes over the dataset, which then has a small part of the text (64 KiB at
  // least); 0: all text that is not held out.
  double passes = 0;
  // As in v1::PackConfig.
  bool heldout_by_similarity = false;
  int32_t runs_per_instance = 1;
};

// A task with training examples on which models are fine-tuned.
struct TunedTask {
  // A built-in task, or a name for `parts`.
  std::string name = {};
  // Built-in tasks whose examples are trained on together; empty: `name`.
  std::vector<std::string> parts = {};
  // Share of the examples that is trained on, the same ones in all runs.
  double share = 1;
  // Only arms that name it are tuned on it, with --full, and only their first scoring applies.
  bool is_extra = false;
  // Tasks of another origin, for the scorings that ask for them.
  std::vector<std::string> further = {};
  // Approximate tokens of one epoch; a guide only.
  int64_t num_tokens = 0;

  // The built-in tasks that are trained on and scored.
  std::vector<std::string> trained() const;
};

// A way in which a fine-tuned model is scored on tasks.
struct TaskScoring {
  // "" for the model as it was trained.
  std::string name = {};
  // Experts per token; 0: as in training.
  int32_t active_experts = 0;
  // The FFNs are split for the scoring.
  std::optional<v1::ExpertSplit> split = {};
  // As in EvaluateTasksRequest.
  double embedding_noise = 0;
  // Scored on TunedTask::further, too.
  bool further = false;
};

// What makes an arm a fine-tuning of the model of another arm with the same seed, once on each task
// of the experiment.
struct FineTuning {
  std::string base = {};
  // The FFNs of the base are split before training.
  std::optional<v1::ExpertSplit> split = {};
  // Passes over the examples, relative to those of the plan.
  double epochs = 1;
  std::vector<TaskScoring> scorings = {{}};
  // The extra tasks on which it is tuned.
  std::vector<std::string> extra_tasks = {};
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
  // Present for an arm that is fine-tuned; its settings are then merged into `tuning_settings`.
  std::optional<FineTuning> tuning = {};
  // Left out by --quick.
  bool full_only = false;
  // Tokens of a run, relative to those of the plan. Ignored for an arm that is fine-tuned.
  double length = 1;
  // Measured on one thread with a second such run in parallel (2 cores with AVX-512); a guide only.
  double tokens_per_second = 17000;
  // Experts, as the FFNs are split, whose share of the activations on held-out text is measured.
  // Empty for those of a model with experts, whose change of choices in tuning is measured too; not
  // on extra tasks.
  std::optional<v1::ExpertSplit> measured_experts = {};
  // The layers that mixing layers choose for the prompts of its task are counted.
  bool counts_layer_choices = false;

  // Experts per layer; 1: dense.
  int32_t num_experts() const;
  // "moe_layers", "batch 16", ...: the settings on one line.
  std::string SettingsText() const;
  // Returns whether it is fine-tuned on this task of the experiment.
  bool IsTunedOn(const TunedTask& task) const;
};

struct PlannedRun {
  ArmDefinition arm = {};
  v1::OrderMode order = v1::SIMILARITY;
  uint64_t seed = 0;
  // Host on which it is trained; empty: the host of the service.
  std::string host = {};
  // Task on which it is fine-tuned; empty for other runs.
  std::string task = {};

  // "moe-similarity-seed-0", "plain-sst2-seed-0", ...
  std::string name() const;
};

// A scoring of the held-out split.
struct PlannedScore {
  ScoredRouting routing = ScoredRouting::kSegment;
  int32_t first_positions = 64;
  // Experts per token of a TOKEN_CHOICE model; 0: other models.
  int32_t active_experts = 0;
  // Dataset whose held-out split is scored; empty: the first of the experiment.
  std::string dataset = {};
};

// The size of --quick or --full.
struct PlanSize {
  // Steps with the batch of Experiment::settings; arms with other batches have as many tokens,
  // multiplied by their length.
  int64_t num_steps = 0;
  // Approximate number of held-out windows over all domains. All held-out documents are scored, so
  // a larger corpus holds out a smaller fraction.
  int64_t heldout_windows = 0;
  int num_seeds = 1;
  // Passes of a fine-tuning run over the examples of its task.
  double epochs = 0;
  // Examples of each task on which tuned models are scored, at most.
  int64_t max_examples = 0;
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
  int32_t vocab_size = 2048;
  // Settings of all arms that are not fine-tuned.
  v1::RunSpec settings = {};
  // Tasks of fine-tuning arms, and the settings of these arms.
  std::vector<TunedTask> tasks = {};
  v1::RunSpec tuning_settings = {};
  // Beams with which models write the texts of tasks; 0: as many as the task says.
  int32_t text_beams = 0;
  // The arm whose complete settings are shown.
  std::string main_arm = {};
  // All models are scored on the held-out split of the first, except where a score names another.
  std::vector<DatasetDefinition> datasets = {};
  // Those that most claims need come first.
  std::vector<ArmDefinition> arms = {};
  PlanSize quick = {}, full = {};
  // Returns the scorings of held-out text that a run needs, the main one first; none for a
  // fine-tuning run.
  std::function<std::vector<PlannedScore>(const PlannedRun&)> scores = {};
  ClaimSettings claim_settings = {};
  // Returns all claims in order, also those without measurements.
  std::function<std::vector<Claim>(const Evidence&, const ClaimSettings&)> claims = {};

  // Tokens of a step with the batch of `settings`.
  int64_t tokens_of_step() const;
};

}  // namespace braid

#endif  // BRAID_REPRODUCE_EXPERIMENT_H_

// Effects on the answers of fine-tuned models: signed sums over models that were tuned with the
// same seed on the same task and asked the same examples. For example, the loss of plain tuning
// minus that of routed tuning, in the mean over two tasks:
//
//   TaskEffect(evidence, {.arms = {{+1, "plain"}, {-1, "emoe"}},
//                         .tasks = {{"sst2", "sst2"}, {"mawps", "mawps"}}}, options);
#ifndef BRAID_REPRODUCE_TASK_CONTRAST_H_
#define BRAID_REPRODUCE_TASK_CONTRAST_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "evaluation/statistics/paired_bootstrap.h"
#include "reproduce/contrasts.h"

namespace braid {

// A term of the sum: a fine-tuned model, and the scoring of it.
struct SignedTuning {
  double sign = 1;
  std::string arm = {};
  // TaskScoring::name.
  std::string scoring = {};
  // The task on which it is tuned, if not that of the contrast.
  std::string tuned_on = {};
};

// A task on which models are tuned, and one on which they are asked.
struct AskedTask {
  std::string tuned_on = {};
  std::string asked = {};
};

enum class TaskMeasure {
  // Nats of the right answer.
  kAnswerLoss,
  // The main figure of the task, such as the share of right answers.
  kFigure,
};

struct TaskContrast {
  std::vector<SignedTuning> arms = {};
  // The effect is the mean over these tasks, which count alike.
  std::vector<AskedTask> tasks = {};
  TaskMeasure measure = TaskMeasure::kAnswerLoss;
};

// Returns the seeds of fine-tuned models.
std::set<uint64_t> TunedSeeds(const Evidence& evidence);

// Returns the values of a model by example; the sign of `arm` does not matter. NotFound, naming the
// model, if it has no result or was not scored so.
absl::StatusOr<const std::vector<double>*> TaskValues(const Evidence& evidence,
                                                      const SignedTuning& arm,
                                                      const AskedTask& task, TaskMeasure measure,
                                                      uint64_t seed);

// Returns the part of an effect that is the mean over the examples of one of `num_tasks` tasks.
Stratum TaskStratum(std::vector<double> differences, size_t num_tasks);

// Returns the effect over the seeds for which all arms were tuned and scored on all tasks. Examples
// and seeds are crossed (evaluation/statistics/paired_bootstrap.h): the same draw of examples
// applies to all arms and seeds. Errors: NotFound if there is no such seed, with a message that
// names what is missing; FailedPrecondition if two scores are not of the same number of examples.
absl::StatusOr<EffectEstimate> TaskEffect(const Evidence& evidence, const TaskContrast& contrast,
                                          const PairedBootstrapOptions& options);

}  // namespace braid

#endif  // BRAID_REPRODUCE_TASK_CONTRAST_H_

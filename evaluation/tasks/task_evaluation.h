// Evaluates one task: answers the examples that have no answer yet and computes the figures.
#ifndef BRAID_EVALUATION_TASKS_TASK_EVALUATION_H_
#define BRAID_EVALUATION_TASKS_TASK_EVALUATION_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "braid/v1/evaluation.pb.h"
#include "evaluation/tasks/example_answer.h"
#include "evaluation/tasks/task_examples.h"
#include "evaluation/tasks/text_codec.h"
#include "model/config/decoder.h"

namespace braid {

// The model under evaluation.
struct AskedModel {
  TextCodec codec;
  int64_t context_length = 0;
  // Identifies everything in the model that answers depend on, such as a digest of the checkpoint.
  std::string identity;
  std::function<std::unique_ptr<Decoder>(v1::InferenceRouting)> new_decoder;
  // The classes of a label head: the logits after a prompt are theirs. Empty for a model of tokens.
  std::vector<std::string> classes = {};
  // True for a label head whose only output is a number.
  bool predicts_numbers = false;
  // As in Asking.
  StepTogetherFunction step_together = nullptr;
};

struct TaskEvaluationOptions {
  v1::InferenceRouting routing = v1::SEGMENT_ROUTING;
  // Experts that each token uses, when it is not the number that the model was last trained with;
  // otherwise 0. Answers are stored apart; the decoders are the caller's.
  int active_experts = 0;
  // Number of demonstrations; negative for the task's default.
  int num_shots = -1;
  uint64_t seed = 0;
  // Maximum number of examples (0: all). A smaller number selects a subset of a larger one.
  int64_t max_examples = 0;
  // An existing directory in which answers are stored.
  std::filesystem::path answers_dir;
  // List the loss and the score of each example in the result.
  bool want_examples = false;
  // Returns whether a text of an example shares no text with the documents that the model was
  // trained on. Null when that is unknown.
  std::function<bool(std::string_view)> is_clean = nullptr;
};

// Receives the number of examples answered so far and in total.
using TaskProgress = std::function<void(int64_t done, int64_t total)>;

// Returns the indices of `count` of `total` examples, ascending; all when count is 0 or too large.
// They are the first of one fixed random order, so a smaller count selects a subset.
std::vector<int64_t> SampleExamples(int64_t total, int64_t count);

// Returns whether the model can answer the task: InvalidArgument when the choices are not the
// classes of its label head, when it predicts numbers and the answers are none, and when only one
// that does could answer.
absl::Status CheckAnswerable(const v1::TaskSpec& spec, const AskedModel& model);

// Checks the number of demonstrations, as in TaskEvaluationOptions: InvalidArgument for any with a
// label head.
absl::Status CheckShots(const AskedModel& model, int num_shots);

// Returns the number of demonstrations: `num_shots`, or the task's default when that is negative.
int ShotsOf(const v1::TaskSpec& spec, int num_shots);

// Returns a digest of what answers depend on besides the model and the options: specification,
// files and the version of the protocol of docs/tasks.md.
uint64_t TaskDigest(const LoadedTask& task);

// Returns ANSWERS/TASK-ROUTING-DIGEST.jsonl. The digest covers specification, files, model, shots,
// seed and the version of the protocol of docs/tasks.md, but not the number of examples.
std::filesystem::path AnswersPath(const LoadedTask& task, const AskedModel& model,
                                  const TaskEvaluationOptions& options);

// Returns the answers of an evaluation that is complete, in the order of the examples. NotFound
// when some are missing; other errors are those of AnswerLog.
absl::StatusOr<std::vector<ExampleAnswer>> StoredAnswers(const LoadedTask& task,
                                                         const AskedModel& model,
                                                         const TaskEvaluationOptions& options);

// Evaluates the task. DataLoss when a stored answer does not fit the task; other errors are those
// of CheckAnswerable, CheckShots, AnswerLog and AnswerExamples.
absl::StatusOr<v1::TaskResult> EvaluateTask(const LoadedTask& task, const AskedModel& model,
                                            const TaskEvaluationOptions& options,
                                            const TaskProgress& progress);

}  // namespace braid

#endif  // BRAID_EVALUATION_TASKS_TASK_EVALUATION_H_

// Evaluates one task: asks what is not answered yet, and counts.
#ifndef BRAID_EVALUATION_TASKS_TASK_EVALUATION_H_
#define BRAID_EVALUATION_TASKS_TASK_EVALUATION_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "braid/v1/analysis.pb.h"
#include "evaluation/tasks/example_answer.h"
#include "evaluation/tasks/task_examples.h"
#include "evaluation/tasks/text_codec.h"
#include "model/config/decoder.h"

namespace braid {

// The model that is asked.
struct AskedModel {
  TextCodec codec;
  int64_t context_length = 0;
  // What its answers depend on, such as a digest of the checkpoint.
  std::string identity;
  std::function<std::unique_ptr<Decoder>(v1::InferenceRouting)> new_decoder;
};

struct TaskEvaluationOptions {
  v1::InferenceRouting routing = v1::SEGMENT_ROUTING;
  // Negative: what the task says.
  int num_shots = -1;
  uint64_t seed = 0;
  // At most this many examples, those of a smaller number among them; 0: all.
  int64_t max_examples = 0;
  // An existing directory for the answers.
  std::filesystem::path answers_dir;
};

// Examples answered and to answer.
using TaskProgress = std::function<void(int64_t done, int64_t total)>;

// Indices of `count` of `total` examples, ascending; all when count is 0 or too large. Those of a
// smaller count are among them: they are the first of one fixed random order.
std::vector<int64_t> SampleExamples(int64_t total, int64_t count);

// Demonstrations to show: what the options say, else the task.
int ShotsOf(const v1::TaskSpec& spec, int num_shots);

// ANSWERS/TASK-ROUTING-DIGEST.jsonl. The digest covers specification, files, model, shots, seed and
// the version of the protocol of docs/tasks.md, but not how many examples are asked.
std::filesystem::path AnswersPath(const LoadedTask& task, const AskedModel& model,
                                  const TaskEvaluationOptions& options);

// DataLoss for a kept answer that does not fit the task; else errors of AnswerLog and
// AnswerExample.
absl::StatusOr<v1::TaskResult> EvaluateTask(const LoadedTask& task, const AskedModel& model,
                                            const TaskEvaluationOptions& options,
                                            const TaskProgress& progress);

}  // namespace braid

#endif  // BRAID_EVALUATION_TASKS_TASK_EVALUATION_H_

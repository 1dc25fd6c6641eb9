// Hand-written files of all built-in tasks, a codec of bytes, and answers to single examples.
#ifndef BRAID_TESTS_EVALUATION_TASKS_SAMPLE_TASKS_H_
#define BRAID_TESTS_EVALUATION_TASKS_SAMPLE_TASKS_H_

#include <cstdint>
#include <filesystem>
#include <string>

#include "absl/status/statusor.h"
#include "evaluation/tasks/example_answer.h"
#include "evaluation/tasks/task_examples.h"
#include "evaluation/tasks/text_codec.h"

namespace braid {

// Returns the directory that contains one folder per task.
std::filesystem::path SampleDirectory();
std::filesystem::path GoldenPath(const std::string& task);

// Returns a built-in task with its sample files.
LoadedTask SampleTask(const std::string& name);

// Returns a codec in which byte b is token b + 1 and 0 is EOS; V is 257. The same on every machine.
TextCodec ByteCodec();

// Calls AnswerExamples for one example.
absl::StatusOr<ExampleAnswer> AnswerExample(const LoadedTask& task, int64_t example,
                                            const Asking& asking);

}  // namespace braid

#endif  // BRAID_TESTS_EVALUATION_TASKS_SAMPLE_TASKS_H_

// Hand-written files of all built-in tasks, and bytes as tokens.
#ifndef BRAID_TESTS_EVALUATION_TASKS_SAMPLE_TASKS_H_
#define BRAID_TESTS_EVALUATION_TASKS_SAMPLE_TASKS_H_

#include <filesystem>
#include <string>

#include "evaluation/tasks/task_examples.h"
#include "evaluation/tasks/text_codec.h"

namespace braid {

// The directory with a folder for each task.
std::filesystem::path SampleDirectory();
std::filesystem::path GoldenPath(const std::string& task);

// A built-in task with its sample.
LoadedTask SampleTask(const std::string& name);

// Byte b is token b + 1, 0 is EOS; V is 257. The same on every machine.
TextCodec ByteCodec();

}  // namespace braid

#endif  // BRAID_TESTS_EVALUATION_TASKS_SAMPLE_TASKS_H_

#include "tests/evaluation/tasks/sample_tasks.h"

#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "evaluation/tasks/task_spec.h"

namespace braid {

std::filesystem::path SampleDirectory() {
  return std::filesystem::path(BRAID_TESTS_DIR "/evaluation/tasks") / "samples";
}

std::filesystem::path GoldenPath(const std::string& task) {
  return std::filesystem::path(BRAID_TESTS_DIR "/evaluation/tasks") / "golden" / (task + ".txt");
}

LoadedTask SampleTask(const std::string& name) {
  return LoadTask(BuiltinTask(name).value(), SampleDirectory(), 1).value();
}

TextCodec ByteCodec() {
  TextCodec codec;
  codec.start_id = codec.eos_id;
  codec.encode = [](std::string_view text) {
    std::vector<int32_t> tokens;
    for (const char c : text) tokens.push_back(static_cast<unsigned char>(c) + 1);
    return tokens;
  };
  codec.decode = [](std::span<const int32_t> tokens) {
    std::string text;
    for (const int32_t token : tokens) {
      if (token > 0) text += static_cast<char>(token - 1);
    }
    return text;
  };
  return codec;
}

absl::StatusOr<ExampleAnswer> AnswerExample(const LoadedTask& task, int64_t example,
                                            const Asking& asking) {
  ASSIGN_OR_RETURN(std::vector<ExampleAnswer> answers, AnswerExamples(task, {&example, 1}, asking));
  return std::move(answers[0]);
}

}  // namespace braid

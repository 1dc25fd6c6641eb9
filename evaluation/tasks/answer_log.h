// The answers of one task under one routing, kept as they come, so that an evaluation that
// ended early goes on where it was.
//
// A file of JSON lines: the first says what was asked, each other holds one answer. It belongs to
// one digest of everything that answers depend on, which is part of its name. A line is one write;
// the last may be torn, by a kill or a full disk, and is then asked again.
#ifndef BRAID_EVALUATION_TASKS_ANSWER_LOG_H_
#define BRAID_EVALUATION_TASKS_ANSWER_LOG_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "evaluation/tasks/example_answer.h"

namespace braid {

// Whether an answer may be one to the task that is asked.
using AnswerFits = std::function<bool(const ExampleAnswer&)>;

class AnswerLog {
 public:
  // Creates the file with `header` (a line without its end), or reads what is there and cuts off
  // a torn line. DataLoss, with the line, for another that is no answer or does not fit;
  // FailedPrecondition when another process writes it.
  static absl::StatusOr<std::unique_ptr<AnswerLog>> Open(const std::filesystem::path& path,
                                                         const std::string& header,
                                                         const AnswerFits& fits);
  ~AnswerLog();
  AnswerLog(const AnswerLog&) = delete;
  AnswerLog& operator=(const AnswerLog&) = delete;

  // By example.
  const std::map<int64_t, ExampleAnswer>& answers() const { return answers_; }
  absl::Status Append(const ExampleAnswer& answer);

 private:
  AnswerLog(std::filesystem::path path, int descriptor);
  absl::Status Load(const std::string& header, const AnswerFits& fits);
  absl::Status WriteLine(const std::string& line);

  const std::filesystem::path path_;
  const int descriptor_;
  std::map<int64_t, ExampleAnswer> answers_;
};

}  // namespace braid

#endif  // BRAID_EVALUATION_TASKS_ANSWER_LOG_H_

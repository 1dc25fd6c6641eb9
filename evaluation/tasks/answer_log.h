// The answers of one task under one routing, written as they arrive, so that an interrupted
// evaluation can be resumed.
//
// A file of JSON lines: the first describes the task, each other line holds one answer. The file
// name contains a digest of everything that the answers depend on. Each line is a single write; a
// last line torn by a kill or a full disk is removed and its example is scored again.
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
#include "base/file_lock.h"
#include "evaluation/tasks/example_answer.h"

namespace braid {

// Returns whether an answer can belong to the task.
using AnswerFits = std::function<bool(const ExampleAnswer&)>;

class AnswerLog {
 public:
  // Creates the file with `header` (a line without its end), or reads an existing one and removes a
  // torn line. DataLoss, naming the line, when another line is not an answer or does not fit;
  // FailedPrecondition when another process is writing the file.
  static absl::StatusOr<std::unique_ptr<AnswerLog>> Open(const std::filesystem::path& path,
                                                         const std::string& header,
                                                         const AnswerFits& fits);
  ~AnswerLog();
  AnswerLog(const AnswerLog&) = delete;
  AnswerLog& operator=(const AnswerLog&) = delete;

  // Returns the answers by example.
  const std::map<int64_t, ExampleAnswer>& answers() const { return answers_; }
  absl::Status Append(const ExampleAnswer& answer);

 private:
  AnswerLog(std::filesystem::path path, int descriptor, FileLock lock);
  absl::Status Load(const std::string& header, const AnswerFits& fits);
  absl::Status WriteLine(const std::string& line);

  const std::filesystem::path path_;
  const int descriptor_;
  const FileLock lock_;
  std::map<int64_t, ExampleAnswer> answers_;
};

}  // namespace braid

#endif  // BRAID_EVALUATION_TASKS_ANSWER_LOG_H_

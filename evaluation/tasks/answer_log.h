// The answers of one task under one routing, written as they arrive, so that an interrupted
// evaluation can be resumed.
//
// A file of JSON lines: the first describes the task, each other line holds one answer with the
// CRC-32C of its other members. The file name contains a digest of everything that the answers
// depend on. Each line is a single write; a last line torn by a kill or a full disk, and lines
// without a right checksum, are removed and their examples are scored again.
#ifndef BRAID_EVALUATION_TASKS_ANSWER_LOG_H_
#define BRAID_EVALUATION_TASKS_ANSWER_LOG_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_lock.h"
#include "evaluation/tasks/example_answer.h"

namespace braid {

// Returns whether an answer can belong to the task.
using AnswerFits = std::function<bool(const ExampleAnswer&)>;

class AnswerLog {
 public:
  // Creates the file with `header` (a line without its end), or reads an existing one and removes
  // torn and damaged lines. DataLoss, naming the line, when an answer does not fit;
  // FailedPrecondition when another process is writing the file.
  static absl::StatusOr<std::unique_ptr<AnswerLog>> Open(const std::filesystem::path& path,
                                                         const std::string& header,
                                                         const AnswerFits& fits);
  ~AnswerLog();
  AnswerLog(const AnswerLog&) = delete;
  AnswerLog& operator=(const AnswerLog&) = delete;

  // Returns the answers by example.
  const std::map<int64_t, ExampleAnswer>& answers() const { return answers_; }
  // Returns the number of damaged lines that Open removed; older versions wrote no checksums, so
  // all of their lines count.
  int64_t num_damaged() const { return num_damaged_; }
  absl::Status Append(const ExampleAnswer& answer);

 private:
  AnswerLog(std::filesystem::path path, int descriptor, FileLock lock);
  absl::Status Load(const std::string& header, const AnswerFits& fits);
  absl::Status Replace(const std::string& before, const std::string& after);
  absl::Status Write(std::string_view text);

  const std::filesystem::path path_;
  const int descriptor_;
  const FileLock lock_;
  std::map<int64_t, ExampleAnswer> answers_;
  int64_t num_damaged_ = 0;
};

}  // namespace braid

#endif  // BRAID_EVALUATION_TASKS_ANSWER_LOG_H_

// The callback by which a stage reports its progress and learns that it should stop.
#ifndef BRAID_PIPELINE_STORE_PROGRESS_CALLBACK_H_
#define BRAID_PIPELINE_STORE_PROGRESS_CALLBACK_H_

#include <concepts>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"

namespace braid {

// The progress of a stage. Fields that are left out keep their last reported value.
struct StagePosition {
  int64_t done = 0;        // units processed
  int64_t total = 0;       // units expected; 0: unknown
  int64_t documents = -1;  // documents processed; equals `done` if the units are documents
  int64_t rejects = -1;    // records rejected so far
  int64_t chunk = 0;       // the current chunk, counted from 1
  int64_t num_chunks = 0;  // 0: unknown
  // Replaces the unit of the stage during work that does not process its units, such as "documents:
  // training the tokenizer".
  std::string unit = {};
};

// A function that a stage calls between chunks of work. When it returns an error, such as
// CANCELLED, the stage returns that error at once. Converts from a function of a position and from
// one of (done, total).
class ProgressCallback {
 public:
  using Function = std::function<absl::Status(const StagePosition&)>;

  template <std::invocable<const StagePosition&> F>
  ProgressCallback(F report) : report_(std::move(report)) {}  // NOLINT: as std::function
  template <std::invocable<int64_t, int64_t> F>
  ProgressCallback(F report)  // NOLINT: as std::function
      : report_([report = std::move(report)](const StagePosition& position) {
          return report(position.done, position.total);
        }) {}

  // Adds a function that is notified, from any thread, of what the stage waits for; "": nothing.
  ProgressCallback(Function report, std::function<void(const std::string&)> waiting)
      : report_(std::move(report)), waiting_(std::move(waiting)) {}

  void Waiting(const std::string& what) const {
    if (waiting_) waiting_(what);
  }

  absl::Status operator()(int64_t done, int64_t total) const {
    return report_({.done = done, .total = total});
  }
  absl::Status operator()(const StagePosition& position) const { return report_(position); }

 private:
  Function report_;
  std::function<void(const std::string&)> waiting_;
};

}  // namespace braid

#endif  // BRAID_PIPELINE_STORE_PROGRESS_CALLBACK_H_

// How a stage tells how far it is, and learns that it should stop.
#ifndef BRAID_PIPELINE_STORE_STAGE_ADVANCE_H_
#define BRAID_PIPELINE_STORE_STAGE_ADVANCE_H_

#include <concepts>
#include <cstdint>
#include <functional>
#include <utility>

#include "absl/status/status.h"

namespace braid {

// Where a stage is. What it leaves out stays as it was.
struct StagePosition {
  int64_t done = 0;        // units
  int64_t total = 0;       // units expected; 0: unknown
  int64_t documents = -1;  // done; of stages whose units are documents, `done`
  int64_t rejects = -1;    // records rejected so far
  int64_t chunk = 0;       // being worked on, from 1
  int64_t num_chunks = 0;  // 0: unknown
};

// Called between chunks of work. CANCELLED asks the stage to return that status
// at once.
class StageAdvance {
 public:
  using Report = std::function<absl::Status(const StagePosition&)>;

  template <std::invocable<const StagePosition&> F>
  StageAdvance(F report) : report_(std::move(report)) {}  // NOLINT: as std::function
  template <std::invocable<int64_t, int64_t> F>
  StageAdvance(F report)  // NOLINT: as std::function
      : report_([report = std::move(report)](const StagePosition& position) {
          return report(position.done, position.total);
        }) {}

  absl::Status operator()(int64_t done, int64_t total) const {
    return report_({.done = done, .total = total});
  }
  absl::Status operator()(const StagePosition& position) const { return report_(position); }

 private:
  Report report_;
};

}  // namespace braid

#endif  // BRAID_PIPELINE_STORE_STAGE_ADVANCE_H_

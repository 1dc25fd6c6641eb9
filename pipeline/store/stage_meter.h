// Computes the progress figures of a stage from its positions: rates, estimated time left, memory.
// WatchJob, the progress bar, --json and /metrics all show these figures.
#ifndef BRAID_PIPELINE_STORE_STAGE_METER_H_
#define BRAID_PIPELINE_STORE_STAGE_METER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <string>

#include "braid/v1/job.pb.h"
#include "pipeline/store/progress_callback.h"

namespace braid {

// The inputs of the figures besides the positions.
struct StageMeterInputs {
  std::string stage;
  std::string unit;  // "bytes" or "documents"
  // Mean bytes of a document, for stages whose unit is documents.
  double bytes_per_document = 0;
  // Records rejected by earlier stages.
  int64_t rejects = 0;
  // Returns the seconds of a monotonic clock.
  std::function<double()> clock;
  std::function<int64_t()> resident_bytes;
};

// Measures one attempt at one stage. Not thread-safe.
//
// Rates are means over the last kWindowSeconds. They count from the first reported position, so
// work of an earlier attempt inflates neither the rates nor the estimated time. When a stage starts
// another pass over its documents (`done` decreases), the measurement starts again. Positions in
// another unit have no rate of their own; their time counts in the mean rate of the stage.
class StageMeter {
 public:
  static constexpr double kWindowSeconds = 15;
  // Rates over a shorter time are not reported.
  static constexpr double kMinSeconds = 0.5;

  explicit StageMeter(StageMeterInputs inputs);

  // Returns the progress before the first position.
  v1::StageProgress Started();
  v1::StageProgress At(const StagePosition& position);
  // Returns the final progress, with the mean rates of the whole attempt; without rates when a
  // stored output was reused.
  v1::StageProgress Completed(bool reused);

 private:
  struct Sample {
    double time = 0;
    double done = 0, documents = 0, bytes = 0;
  };

  void Remember(const Sample& sample);
  v1::StageProgress Describe(double now) const;
  void AddRates(const Sample& from, const Sample& to, v1::StageProgress* progress) const;

  const StageMeterInputs inputs_;
  const double started_at_;
  StagePosition position_;
  bool positioned_ = false;
  Sample first_;                // for the current pass over the documents
  std::deque<Sample> samples_;  // for the window and one before it, thinned out
};

}  // namespace braid

#endif  // BRAID_PIPELINE_STORE_STAGE_METER_H_

// From where a stage is to what people watch: rates, time left, memory. The one
// place that computes them; WatchJob, the progress bar, --json and /metrics show
// what comes out of here.
#ifndef BRAID_PIPELINE_STORE_STAGE_METER_H_
#define BRAID_PIPELINE_STORE_STAGE_METER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <string>

#include "braid/v1/pipeline.pb.h"
#include "pipeline/store/stage_advance.h"

namespace braid {

// What the figures are made from besides the positions.
struct StageMeterInputs {
  std::string stage;
  std::string unit;  // "bytes" or "documents"
  // Mean text of a document, for stages that count documents.
  double bytes_per_document = 0;
  // Rejected by earlier stages.
  int64_t rejects = 0;
  // Seconds of a clock that does not go back.
  std::function<double()> clock;
  std::function<int64_t()> resident_bytes;
};

// Measures one attempt at one stage.
//
// Rates are of the last kWindowSeconds. They count from the first position told,
// so what an earlier attempt had done neither inflates them nor the time left.
// A stage that goes through its documents again (done falls) is measured anew.
class StageMeter {
 public:
  static constexpr double kWindowSeconds = 15;
  // A shorter time says nothing about a rate.
  static constexpr double kMinSeconds = 0.5;

  explicit StageMeter(StageMeterInputs inputs);

  // Before the first position.
  v1::StageProgress Started();
  v1::StageProgress At(const StagePosition& position);
  // Rates are then those of the whole attempt; none when the result was there.
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
  Sample first_;                // of this pass over the documents
  std::deque<Sample> samples_;  // of the window and the one before it, spaced out
};

}  // namespace braid

#endif  // BRAID_PIPELINE_STORE_STAGE_METER_H_

// What a run measured, as records of a TensorBoard event file: pure functions.
// docs/formats/metrics.md.
#ifndef BRAID_RUNS_METRICS_EXPORT_RUN_EVENTS_H_
#define BRAID_RUNS_METRICS_EXPORT_RUN_EVENTS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "braid/tensorboard/event.pb.h"
#include "braid/v1/analysis.pb.h"
#include "braid/v1/training.pb.h"

namespace braid {

// The event as a record of the file.
std::string RecordOf(const tensorboard::Event& event);

// The first event of a file.
tensorboard::Event VersionEvent(double wall_time);

// Voids what other files of the directory have of `step` and later ones: it belongs to
// an attempt that did not save them.
tensorboard::Event StartEvent(double wall_time, int64_t step);

// All series of a step, and a histogram "routing/layer_LL/weight_by_expert" of each
// measured layer: over the number of the expert, with bucket [e, e + 1) as high as the mean
// weight of expert e.
tensorboard::Event StepEvent(const v1::StepMetrics& metrics);

// Markdown for the text tab.
tensorboard::Event TextEvent(double wall_time, int64_t step, std::string_view tag,
                             std::string_view markdown);

// "heldout/DOMAIN/perplexity", "loss", "perplexity_with_first_segment" and "bits_per_byte" (where
// it was measured) of every domain and of "all", at the step of the evaluated weights.
tensorboard::Event EvaluationEvent(double wall_time, const v1::Evaluation& evaluation);

}  // namespace braid

#endif  // BRAID_RUNS_METRICS_EXPORT_RUN_EVENTS_H_

// The metrics of a run as records of a TensorBoard event file, as pure functions. See
// docs/formats/metrics.md.
#ifndef BRAID_RUNS_METRICS_EXPORT_RUN_EVENTS_H_
#define BRAID_RUNS_METRICS_EXPORT_RUN_EVENTS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "braid/tensorboard/event.pb.h"
#include "braid/v1/evaluation.pb.h"
#include "braid/v1/training.pb.h"

namespace braid {

// Returns the event as a record of the file.
std::string RecordOf(const tensorboard::Event& event);

// Returns the first event of a file.
tensorboard::Event VersionEvent(double wall_time);

// Returns an event that voids `step` and later steps in other files of the directory: they belong
// to an attempt that did not save them.
tensorboard::Event StartEvent(double wall_time, int64_t step);

// Returns all series of a step, and for each measured layer a histogram
// "routing/layer_LL/weight_by_expert" over expert numbers, whose bucket [e, e + 1) has the mean
// weight of expert e as its height.
tensorboard::Event StepEvent(const v1::StepMetrics& metrics);

// Returns an event with Markdown for the text tab.
tensorboard::Event TextEvent(double wall_time, int64_t step, std::string_view tag,
                             std::string_view markdown);

// Returns "heldout/DOMAIN/perplexity", "loss", "perplexity_with_first_segment" and "bits_per_byte"
// of every domain and of "all", at the step of the evaluated weights. Figures that cover no token
// are left out.
tensorboard::Event EvaluationEvent(double wall_time, const v1::Evaluation& evaluation);

}  // namespace braid

#endif  // BRAID_RUNS_METRICS_EXPORT_RUN_EVENTS_H_

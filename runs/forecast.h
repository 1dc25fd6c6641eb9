// Predicts the memory and communication of a training run before it starts.
#ifndef BRAID_RUNS_FORECAST_H_
#define BRAID_RUNS_FORECAST_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "braid/v1/forecast.pb.h"
#include "braid/v1/model.pb.h"

namespace braid {

// Returns the bytes that each rank of a ring all-reduce of `bytes` sends, and receives: 2 (W - 1) /
// W times `bytes`, half of it for the reduce-scatter and half for the all-gather (Patarasuk and
// Yuan, 2009).
double RingAllReduceBytes(int64_t bytes, int world_size);

// Predicts from a resolved configuration; pure arithmetic. Where the active experts grow, memory is
// that with most of them, FLOPs and times are means over the steps of the run. InvalidArgument
// names a field of `request` that is out of range; Unimplemented for expert choice, whose
// activations depend on the choice.
absl::StatusOr<v1::Forecast> ForecastTraining(const v1::ModelConfig& resolved,
                                              const v1::ForecastRequest& request);

}  // namespace braid

#endif  // BRAID_RUNS_FORECAST_H_

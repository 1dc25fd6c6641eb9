// What a training run will need and send, before it is started.
#ifndef BRAID_RUNS_FORECAST_H_
#define BRAID_RUNS_FORECAST_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "braid/v1/analysis.pb.h"
#include "braid/v1/model.pb.h"

namespace braid {

// Bytes that each rank of a ring sends (and receives), of an array of `bytes`:
// half of it for a reduce-scatter or all-gather, all for an all-reduce (Patarasuk,
// Yuan, 2009): 2 (W - 1) / W.
double RingAllReduceBytes(int64_t bytes, int world_size);

// Pure arithmetic from a resolved configuration. InvalidArgument names a field of
// `request` that is out of range; Unimplemented for routers that choose experts
// instead of merging them, whose activations depend on the choice.
absl::StatusOr<v1::Forecast> ForecastTraining(const v1::ModelConfig& resolved,
                                              const v1::ForecastRequest& request);

}  // namespace braid

#endif  // BRAID_RUNS_FORECAST_H_

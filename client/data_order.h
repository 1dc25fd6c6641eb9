// The mapping between the steps of a training run and the instances of its dataset, by the
// trainer's data order (runs/instance_schedule.h). Steps count from 1, as in metrics.jsonl.
#ifndef BRAID_CLIENT_DATA_ORDER_H_
#define BRAID_CLIENT_DATA_ORDER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "braid/v1/job.pb.h"
#include "braid/v1/training.pb.h"
#include "rpc/training_client.h"
#include "runs/mixture_schedule.h"

namespace braid {

// The inputs that determine the order.
struct DataOrder {
  std::string dataset_key;
  int64_t num_instances = 0;
  int64_t global_batch_size = 4;
  uint64_t seed = 0;
  // 0 means one pass over the data.
  int64_t num_steps = 0;
  // Id of the run that has this order; empty without one.
  std::string run = {};
  // The order of a mixture, and the number of this dataset in it; null for a run on one dataset.
  std::shared_ptr<const MixtureSchedule> mixture = nullptr;
  int32_t dataset = 0;
  // The steps that a run has completed; unset for training that is only planned.
  std::optional<int64_t> steps_done = std::nullopt;
  // Ranges of steps, inclusive, whose batches had no effect on the weights.
  std::vector<std::pair<int64_t, int64_t>> skipped_steps = {};
};

// Returns the default order of the dataset of a job. FailedPrecondition when the job has no
// dataset.
absl::StatusOr<DataOrder> DataOrderOf(const v1::Job& job);

// Returns all loss spikes of a run, ascending: those of its description, and of its events when
// that may not have all. Errors: those of WatchRun.
absl::StatusOr<std::vector<v1::LossSpike>> SpikesOfRun(TrainingClient& client, const v1::Run& run);

// Sets the order of a run and which of its steps count: those that it has completed, without the
// batches that were skipped at `spikes`, which are all of its loss spikes.
void TakeFromRun(const v1::Run& run, std::span<const v1::LossSpike> spikes, DataOrder* order);

// Returns num_steps, or the number of steps of one pass when it is 0.
int64_t NumSteps(const DataOrder& order);

// Returns whether the run has trained on the batch of the step so far: it has done the step, and no
// loss spike made it skip the batch. True when the order does not describe a run that was started.
bool WasTrainedOn(const DataOrder& order, int64_t step);

// Returns why the run has not trained on the batch of a step, to be appended to its description: ""
// where it has.
std::string NotTrainedOn(const DataOrder& order, int64_t step);

// Returns the instances of this dataset in a step, by position in the global batch. InvalidArgument
// unless 1 <= step <= NumSteps(order).
absl::StatusOr<std::vector<int64_t>> InstancesOfStep(const DataOrder& order, int64_t step);

// Returns the steps that read the instance and count, ascending. Requires 0 <= instance <
// num_instances.
std::vector<int64_t> StepsOfInstance(const DataOrder& order, int64_t instance);

}  // namespace braid

#endif  // BRAID_CLIENT_DATA_ORDER_H_

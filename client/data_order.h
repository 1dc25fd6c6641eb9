// Which steps of a training run see which instances of a dataset, for those who
// ask afterwards: the trainer's own data order (runs/instance_schedule.h),
// with steps counted from 1 as metrics.jsonl does.
#ifndef BRAID_CLIENT_DATA_ORDER_H_
#define BRAID_CLIENT_DATA_ORDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "braid/v1/pipeline.pb.h"

namespace braid {

// What the order is a function of.
struct DataOrder {
  std::string dataset_key;
  int64_t num_instances = 0;
  int64_t global_batch_size = 4;
  uint64_t seed = 0;
  int64_t num_steps = 0;  // 0: one pass over the data
  std::string run = {};   // its id, when it is that of a run
};

// Of the dataset that a job made. FAILED_PRECONDITION when it has none.
absl::StatusOr<DataOrder> DataOrderOf(const v1::Job& job);

// num_steps, or the steps of one pass.
int64_t NumSteps(const DataOrder& order);

// The instances of a step, by slot of the global batch. INVALID_ARGUMENT unless
// 1 <= step, and step <= num_steps where that is set.
absl::StatusOr<std::vector<int64_t>> InstancesOfStep(const DataOrder& order, int64_t step);

// The steps that see the instance, ascending. Requires it to be in range.
std::vector<int64_t> StepsOfInstance(const DataOrder& order, int64_t instance);

}  // namespace braid

#endif  // BRAID_CLIENT_DATA_ORDER_H_

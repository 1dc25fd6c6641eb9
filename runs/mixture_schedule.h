// The order in which a run reads the instances of several datasets: a pure function of (dataset
// keys, shares, seed, step), the same for every world size. Any position is found in O(datasets)
// time, so a checkpoint stores only the step. The batch may grow.
#ifndef BRAID_RUNS_MIXTURE_SCHEDULE_H_
#define BRAID_RUNS_MIXTURE_SCHEDULE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "runs/batch_schedule.h"
#include "runs/instance_schedule.h"

namespace braid {

// The number of slots that each dataset has among the first n of a mixture with constant shares.
//
// The datasets are split off one after the other: of the slots that remain for datasets d, d+1,
// ..., dataset d has slot i exactly when floor(p i + 1/2) rises there, as in Bresenham's line, with
//   p = share[d] / (share[d] + share[d+1] + ...).
// Each split is off by at most half a slot, so the first n slots hold n share[d] of dataset d
// within half a slot per dataset. p is a multiple of 2^-48 and the products are integers, so all
// machines agree.
class ShareSplitter {
 public:
  // Requires finite shares of at least 0 whose sum is positive; they are normalized.
  explicit ShareSplitter(const std::vector<double>& shares);

  // Returns the slots of each dataset among the first n. Requires 0 <= n < 2^62.
  std::vector<int64_t> CountsBefore(int64_t n) const;

  // The dataset that has a slot, and the number of its slots before it.
  struct Place {
    int32_t dataset = 0;
    int64_t number = 0;
  };
  Place At(int64_t slot) const;

 private:
  // The p of each dataset, times 2^48; the whole from the last dataset with a share on.
  std::vector<uint64_t> parts_;
};

class MixtureSchedule {
 public:
  struct Source {
    std::string key;  // the dataset's
    int64_t num_instances = 0;
  };
  // Shares that apply from a 0-based step on.
  struct Phase {
    int64_t begin_step = 0;
    std::vector<double> shares;  // one per source
  };
  struct Item {
    int32_t dataset = 0;
    int64_t instance = 0;
  };

  // Requires at least one source, positive sizes, and phases that begin at step 0 and ascend.
  MixtureSchedule(const std::vector<Source>& sources, const std::vector<Phase>& phases,
                  uint64_t seed, const BatchSchedule& batch);

  // Returns what 0-based step `step` reads in slot `slot`. Each dataset is read through one
  // permutation of all its instances per epoch, as InstanceSchedule does for one dataset.
  Item At(int64_t step, int64_t slot) const;

  // Returns the items of a rank's slots in a 0-based step.
  std::vector<Item> Items(int64_t step, int rank, int world_size) const;

  // Returns the 0-based steps below `num_steps` that read an instance of a dataset, ascending and
  // without duplicates. Takes O(log(num_steps)) time per reading.
  std::vector<int64_t> StepsOf(int32_t dataset, int64_t instance, int64_t num_steps) const;

  // Returns the number of instances of each dataset that the steps before `step` read.
  std::vector<int64_t> CountsBefore(int64_t step) const;

 private:
  struct PhaseState {
    int64_t begin_step;
    ShareSplitter splitter;
    std::vector<int64_t> counts;  // instances of each dataset read before the phase
  };
  const PhaseState& PhaseOf(int64_t step) const;

  BatchSchedule batch_;
  std::vector<InstanceSchedule> orders_;  // one per dataset, in batches of one instance
  std::vector<PhaseState> phases_;
};

}  // namespace braid

#endif  // BRAID_RUNS_MIXTURE_SCHEDULE_H_

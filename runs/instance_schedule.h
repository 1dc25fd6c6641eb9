// The order in which a run reads training instances: a pure function of (dataset key, seed, step),
// the same for every world size. A checkpoint stores only the step.
#ifndef BRAID_RUNS_INSTANCE_SCHEDULE_H_
#define BRAID_RUNS_INSTANCE_SCHEDULE_H_

#include <cstdint>
#include <string_view>
#include <vector>

namespace braid {

// The slots [begin, end) of the global batch.
struct SlotRange {
  int64_t begin = 0;
  int64_t end = 0;
};

// Returns the contiguous slots of one rank; ranks differ by at most one sequence.
SlotRange RankSlots(int64_t global_batch_size, int rank, int world_size);

// Returns the image of `index` under a bijection of [0, size) selected by the key: a Feistel
// network on the smallest even number of bits that can represent `size`, applied until the result
// is in range. Constant time and memory.
uint64_t PermutedIndex(uint64_t index, uint64_t size, uint64_t key);

// Returns the inverse: the index with PermutedIndex(index, size, key) == permuted.
uint64_t OriginalIndex(uint64_t permuted, uint64_t size, uint64_t key);

class InstanceSchedule {
 public:
  // Requires num_instances > 0 and global_batch_size > 0.
  InstanceSchedule(std::string_view dataset_key, uint64_t seed, int64_t num_instances,
                   int64_t global_batch_size);

  // Returns the instance in 0-based step `step`, slot `slot`. The slots of successive steps run
  // through one permutation of all instances per epoch; slot b of step s is number s *
  // global_batch_size + b.
  int64_t Instance(int64_t step, int64_t slot) const;

  // Returns the instances of a rank's slots in a 0-based step.
  std::vector<int64_t> Instances(int64_t step, int rank, int world_size) const;

  // Returns the 0-based steps below `num_steps` that read this instance, ascending and without
  // duplicates: one per epoch. Requires 0 <= instance < num_instances.
  std::vector<int64_t> StepsOf(int64_t instance, int64_t num_steps) const;

 private:
  uint64_t key_;
  int64_t num_instances_;
  int64_t global_batch_size_;
};

}  // namespace braid

#endif  // BRAID_RUNS_INSTANCE_SCHEDULE_H_

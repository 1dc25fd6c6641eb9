// Which training instance is where in which step: a pure function of (dataset
// key, seed, step), the same for every world size. Nothing about it is stored
// in a checkpoint but the step.
#ifndef BRAID_RUNS_INSTANCE_SCHEDULE_H_
#define BRAID_RUNS_INSTANCE_SCHEDULE_H_

#include <cstdint>
#include <string_view>
#include <vector>

namespace braid {

// Slots [begin, end) of the global batch.
struct SlotRange {
  int64_t begin = 0;
  int64_t end = 0;
};

// The contiguous share of one rank; shares differ by at most one sequence.
SlotRange RankSlots(int64_t global_batch_size, int rank, int world_size);

// A bijection of [0, size) for every key: a Feistel network on the smallest
// even number of bits that holds size, walked until it lands inside.
// Constant time and memory.
uint64_t PermutedIndex(uint64_t index, uint64_t size, uint64_t key);

// Its inverse: the index with PermutedIndex(index, size, key) == permuted.
uint64_t OriginalIndex(uint64_t permuted, uint64_t size, uint64_t key);

class InstanceSchedule {
 public:
  // Requires num_instances > 0 and global_batch_size > 0.
  InstanceSchedule(std::string_view dataset_key, uint64_t seed, int64_t num_instances,
                   int64_t global_batch_size);

  // Slots of successive steps run through one permutation of all instances per
  // epoch: step s, slot b is number s * global_batch_size + b.
  int64_t Instance(int64_t step, int64_t slot) const;

  // The instances of a rank's slots in a 0-based step.
  std::vector<int64_t> Instances(int64_t step, int rank, int world_size) const;

  // The 0-based steps below `num_steps` that have this instance, ascending and
  // each once: one an epoch. Requires 0 <= instance < num_instances.
  std::vector<int64_t> StepsOf(int64_t instance, int64_t num_steps) const;

 private:
  uint64_t key_;
  int64_t num_instances_;
  int64_t global_batch_size_;
};

}  // namespace braid

#endif  // BRAID_RUNS_INSTANCE_SCHEDULE_H_

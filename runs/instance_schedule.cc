#include "runs/instance_schedule.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/splitmix.h"

namespace braid {
namespace {

constexpr int kRounds = 8;

// Returns half the number of bits of the smallest even number of bits that can represent `size`.
int HalfBits(uint64_t size) {
  return std::max(1, (static_cast<int>(std::bit_width(size - 1)) + 1) / 2);
}

uint64_t Feistel(uint64_t index, int half_bits, uint64_t key) {
  const uint64_t mask = (uint64_t{1} << half_bits) - 1;
  uint64_t left = index >> half_bits;
  uint64_t right = index & mask;
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t mixed = left ^ (Mix64(key + static_cast<uint64_t>(round), right) & mask);
    left = right;
    right = mixed;
  }
  return (left << half_bits) | right;
}

// Undoes the Feistel rounds from last to first.
uint64_t InverseFeistel(uint64_t index, int half_bits, uint64_t key) {
  const uint64_t mask = (uint64_t{1} << half_bits) - 1;
  uint64_t left = index >> half_bits;
  uint64_t right = index & mask;
  for (int round = kRounds - 1; round >= 0; --round) {
    const uint64_t mixed = right ^ (Mix64(key + static_cast<uint64_t>(round), left) & mask);
    right = left;
    left = mixed;
  }
  return (left << half_bits) | right;
}

}  // namespace

SlotRange RankSlots(int64_t global_batch_size, int rank, int world_size) {
  return {global_batch_size * rank / world_size, global_batch_size * (rank + 1) / world_size};
}

uint64_t PermutedIndex(uint64_t index, uint64_t size, uint64_t key) {
  BRAID_CHECK(index < size) << index << " of " << size;
  do {
    index = Feistel(index, HalfBits(size), key);
  } while (index >= size);
  return index;
}

uint64_t OriginalIndex(uint64_t permuted, uint64_t size, uint64_t key) {
  BRAID_CHECK(permuted < size) << permuted << " of " << size;
  // The forward walk leaves the range after its start and returns to it only at its end, so the
  // backward walk stops at the first index in the range.
  do {
    permuted = InverseFeistel(permuted, HalfBits(size), key);
  } while (permuted >= size);
  return permuted;
}

InstanceSchedule::InstanceSchedule(std::string_view dataset_key, uint64_t seed,
                                   int64_t num_instances, int64_t global_batch_size)
    : key_(Mix64(seed, dataset_key)),
      num_instances_(num_instances),
      global_batch_size_(global_batch_size) {
  BRAID_CHECK(num_instances > 0 && global_batch_size > 0)
      << num_instances << " " << global_batch_size;
}

int64_t InstanceSchedule::Instance(int64_t step, int64_t slot) const {
  const int64_t number = step * global_batch_size_ + slot;
  const int64_t epoch = number / num_instances_;
  return static_cast<int64_t>(PermutedIndex(static_cast<uint64_t>(number % num_instances_),
                                            static_cast<uint64_t>(num_instances_),
                                            Mix64(key_, static_cast<uint64_t>(epoch))));
}

std::vector<int64_t> InstanceSchedule::Instances(int64_t step, int rank, int world_size) const {
  std::vector<int64_t> instances;
  const SlotRange slots = RankSlots(global_batch_size_, rank, world_size);
  for (int64_t slot = slots.begin; slot < slots.end; ++slot) {
    instances.push_back(Instance(step, slot));
  }
  return instances;
}

std::vector<int64_t> InstanceSchedule::StepsOf(int64_t instance, int64_t num_steps) const {
  std::vector<int64_t> steps;
  for (int64_t epoch = 0; epoch * num_instances_ < num_steps * global_batch_size_; ++epoch) {
    const uint64_t place =
        OriginalIndex(static_cast<uint64_t>(instance), static_cast<uint64_t>(num_instances_),
                      Mix64(key_, static_cast<uint64_t>(epoch)));
    const int64_t step =
        (epoch * num_instances_ + static_cast<int64_t>(place)) / global_batch_size_;
    // A batch larger than an epoch may contain an instance twice.
    const bool repeats = !steps.empty() && steps.back() == step;
    if (step < num_steps && !repeats) steps.push_back(step);
  }
  return steps;
}

}  // namespace braid

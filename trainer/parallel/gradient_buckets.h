// Cuts the gradients of a step into messages and tracks when each may be sent. Pure arithmetic;
// GradientReducer sends them.
#ifndef BRAID_TRAINER_PARALLEL_GRADIENT_BUCKETS_H_
#define BRAID_TRAINER_PARALLEL_GRADIENT_BUCKETS_H_

#include <cstddef>
#include <vector>

#include "model/config/shard.h"

namespace braid {

struct GradientBucket {
  Shard range;
  // The rank whose shard (ShardOf) contains the range.
  int owner = 0;

  bool operator==(const GradientBucket&) const = default;
};

// Covers [0, size) with buckets of at most `bucket_size` elements that do not cross shard
// boundaries, from the end to the beginning: the order in which a backward pass completes
// gradients. Requires bucket_size > 0.
std::vector<GradientBucket> CutGradients(size_t size, size_t bucket_size, int world_size);

// Tracks which buckets of a step are complete.
class BucketReadiness {
 public:
  BucketReadiness() = default;
  explicit BucketReadiness(std::vector<GradientBucket> buckets);

  const std::vector<GradientBucket>& buckets() const { return buckets_; }

  // Starts a step: no bucket is complete.
  void Reset();
  // Records that `part` is complete. Each element may be recorded once per step.
  void Add(Shard part);
  void AddAll() { num_ready_ = buckets_.size(); }
  // Returns the number of complete buckets before the first incomplete one. Complete buckets after
  // it do not count, so that every rank sends in the same order.
  size_t num_ready() const { return num_ready_; }

 private:
  std::vector<GradientBucket> buckets_;
  std::vector<size_t> missing_;  // elements not yet complete, by bucket
  size_t num_ready_ = 0;
};

}  // namespace braid

#endif  // BRAID_TRAINER_PARALLEL_GRADIENT_BUCKETS_H_

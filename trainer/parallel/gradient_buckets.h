// How the gradients of a step are cut into messages, and when each may be sent.
// Pure arithmetic; GradientReducer does the sending.
#ifndef BRAID_TRAINER_PARALLEL_GRADIENT_BUCKETS_H_
#define BRAID_TRAINER_PARALLEL_GRADIENT_BUCKETS_H_

#include <cstddef>
#include <vector>

#include "model/config/shard.h"

namespace braid {

struct GradientBucket {
  Shard range;
  // The rank whose shard (ShardOf) holds the range.
  int owner = 0;

  bool operator==(const GradientBucket&) const = default;
};

// Covers [0, size) with parts of at most `bucket_size` elements that do not cross
// from one rank's shard into another's, from the end to the beginning: the order in
// which a backward pass completes gradients. Requires bucket_size > 0.
std::vector<GradientBucket> CutGradients(size_t size, size_t bucket_size, int world_size);

// Counts what of a step's buckets is complete.
class BucketReadiness {
 public:
  BucketReadiness() = default;
  explicit BucketReadiness(std::vector<GradientBucket> buckets);

  const std::vector<GradientBucket>& buckets() const { return buckets_; }

  // Starts a step: nothing is complete.
  void Reset();
  // `part` is complete. No element may be named twice in a step.
  void Add(Shard part);
  void AddAll() { num_ready_ = buckets_.size(); }
  // How many buckets from the first are complete; those behind the first incomplete
  // one do not count, so that every rank sends in the same order.
  size_t num_ready() const { return num_ready_; }

 private:
  std::vector<GradientBucket> buckets_;
  std::vector<size_t> missing_;  // elements, by bucket
  size_t num_ready_ = 0;
};

}  // namespace braid

#endif  // BRAID_TRAINER_PARALLEL_GRADIENT_BUCKETS_H_

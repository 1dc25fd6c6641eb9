#include "trainer/parallel/gradient_buckets.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace braid {

std::vector<GradientBucket> CutGradients(size_t size, size_t bucket_size, int world_size) {
  BRAID_CHECK(bucket_size > 0 && world_size > 0) << bucket_size << " " << world_size;
  std::vector<GradientBucket> buckets;
  for (int owner = world_size - 1; owner >= 0; --owner) {
    const Shard shard = ShardOf(size, owner, world_size);
    for (size_t end = shard.end; end > shard.begin;) {
      const size_t begin = end - std::min(bucket_size, end - shard.begin);
      buckets.push_back({{begin, end}, owner});
      end = begin;
    }
  }
  return buckets;
}

BucketReadiness::BucketReadiness(std::vector<GradientBucket> buckets)
    : buckets_(std::move(buckets)) {
  Reset();
}

void BucketReadiness::Reset() {
  num_ready_ = 0;
  missing_.clear();
  for (const GradientBucket& bucket : buckets_) missing_.push_back(bucket.range.size());
}

void BucketReadiness::Add(Shard part) {
  // Buckets are in descending order: finds the first that begins before the end of `part`.
  auto bucket =
      std::partition_point(buckets_.begin(), buckets_.end(),
                           [&](const GradientBucket& b) { return b.range.begin >= part.end; });
  for (; bucket != buckets_.end() && bucket->range.end > part.begin; ++bucket) {
    const size_t overlap =
        std::min(part.end, bucket->range.end) - std::max(part.begin, bucket->range.begin);
    size_t& missing = missing_[bucket - buckets_.begin()];
    // Elements are only counted: a part that was added twice would hide one that is missing, and
    // the bucket would be sent too early.
    BRAID_CHECK(overlap <= missing) << "gradients " << part.begin << " to " << part.end << " twice";
    missing -= overlap;
  }
  while (num_ready_ < buckets_.size() && missing_[num_ready_] == 0) ++num_ready_;
}

}  // namespace braid

// Sums gradients over ranks while the backward pass still computes others.
//
// The gradient buffer is cut into buckets from its end, the order in which backward
// fills it. A thread of its own takes them in that order and sums each over the
// ranks as soon as it is complete on this one. With ZERO_1 the sum goes to the rank
// that updates that part of the weights (arXiv 1910.02054, section 5.1), with
// REPLICATED to all. `after_backward` does the same calls after the backward pass,
// in the calling thread, so that it gives the same bits.
//
//   reducer.Begin(model.gradients());
//   model.ForwardBackward(..., [&](Shard part) { reducer.Ready(part); });
//   RETURN_IF_ERROR(reducer.Finish());
#ifndef BRAID_TRAINER_PARALLEL_GRADIENT_REDUCER_H_
#define BRAID_TRAINER_PARALLEL_GRADIENT_REDUCER_H_

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/training.pb.h"
#include "trainer/parallel/communicator.h"
#include "trainer/parallel/gradient_buckets.h"

namespace braid {

// Begin and Finish are called from one thread, in turn, by every rank; Ready in
// between from any. The order in which parts become ready may differ over ranks.
class GradientReducer {
 public:
  // Called by every rank. `communicator` must outlive the reducer. Requires resolved
  // settings.
  static absl::StatusOr<std::unique_ptr<GradientReducer>> Create(
      v1::OptimizerSharding sharding, const v1::ReductionConfig& reduction,
      Communicator& communicator);
  // After an error it may be destroyed between Begin and Finish: what was begun is
  // completed, the rest is not sent.
  ~GradientReducer();
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  // A step's gradients, which must stay where they are until Finish.
  void Begin(std::span<float> gradients);
  // Nothing more will be added to gradients [part.begin, part.end) on this rank.
  void Ready(Shard part);
  // Nothing more will be added to any. Returns when this rank's shard (ZERO_1) or
  // everything (REPLICATED) is summed; elsewhere gradients are unspecified.
  absl::Status Finish();

 private:
  GradientReducer(v1::OptimizerSharding sharding, const v1::ReductionConfig& reduction,
                  Communicator& communicator);
  void ReduceInBackground();
  absl::Status Reduce(const GradientBucket& bucket, Communicator& communicator);
  bool finished() const { return done_ == readiness_.buckets().size() || !status_.ok(); }

  const v1::OptimizerSharding sharding_;
  const size_t bucket_size_;  // elements
  Communicator& communicator_;
  // Of the thread; null when buckets are reduced after backward.
  std::unique_ptr<Communicator> background_;
  std::span<float> gradients_;

  std::mutex mutex_;
  std::condition_variable changed_;
  BucketReadiness readiness_;  // guarded by mutex_
  size_t done_ = 0;            // buckets reduced; guarded by mutex_
  absl::Status status_;        // of the first that failed; guarded by mutex_
  bool stopping_ = false;      // guarded by mutex_
  std::thread thread_;
};

}  // namespace braid

#endif  // BRAID_TRAINER_PARALLEL_GRADIENT_REDUCER_H_

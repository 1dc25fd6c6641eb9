// Sums gradients over ranks while the backward pass still computes others.
//
// The gradient buffer is cut into buckets from its end, the order in which backward fills it. A
// background thread sums the buckets over the ranks in that order, each as soon as it is complete
// on this rank. With ZERO_1 the sum goes to the rank that updates that part of the weights (ZeRO,
// arXiv 1910.02054, section 5.1), with REPLICATED to all. `after_backward` makes the same calls
// after the backward pass, on the calling thread, and gives the same bits.
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

// A collective object. Begin and Finish are called alternately from one thread by every rank; Ready
// is called between them from any thread. The order of Ready calls may differ between ranks.
class GradientReducer {
 public:
  // Creates the reducer on every rank. `communicator` must outlive it. Requires resolved settings.
  static absl::StatusOr<std::unique_ptr<GradientReducer>> Create(
      v1::OptimizerSharding sharding, const v1::ReductionConfig& reduction,
      Communicator& communicator);
  // Safe after an error, also between Begin and Finish: completes the bucket being sent and skips
  // the others.
  ~GradientReducer();
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  // Starts a step. `gradients` must stay valid and in place until Finish.
  void Begin(std::span<float> gradients);
  // Declares that gradients [part.begin, part.end) are final on this rank.
  void Ready(Shard part);
  // Declares that all gradients are final. Returns when this rank's shard (ZERO_1) or everything
  // (REPLICATED) is summed; the contents elsewhere are unspecified.
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
  // Used by thread_ only; null when buckets are reduced after backward.
  std::unique_ptr<Communicator> background_;
  std::span<float> gradients_;

  std::mutex mutex_;
  std::condition_variable changed_;
  BucketReadiness readiness_;  // guarded by mutex_
  size_t done_ = 0;            // buckets reduced; guarded by mutex_
  absl::Status status_;        // the first failure; guarded by mutex_
  bool stopping_ = false;      // guarded by mutex_
  std::thread thread_;
};

}  // namespace braid

#endif  // BRAID_TRAINER_PARALLEL_GRADIENT_REDUCER_H_

#include "trainer/parallel/gradient_reducer.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "base/status_macros.h"
#include "trainer/parallel/background_task.h"

namespace braid {

absl::StatusOr<std::unique_ptr<GradientReducer>> GradientReducer::Create(
    v1::OptimizerSharding sharding, const v1::ReductionConfig& reduction,
    Communicator& communicator) {
  auto reducer = absl::WrapUnique(new GradientReducer(sharding, reduction, communicator));
  if (communicator.world_size() == 1 || reduction.after_backward()) return reducer;
  ASSIGN_OR_RETURN(reducer->background_, communicator.Duplicate());
  reducer->thread_ = std::thread([r = reducer.get()] { r->ReduceInBackground(); });
  return reducer;
}

GradientReducer::GradientReducer(v1::OptimizerSharding sharding,
                                 const v1::ReductionConfig& reduction, Communicator& communicator)
    : sharding_(sharding),
      bucket_size_(std::max<size_t>(1, reduction.bucket_bytes() / sizeof(float))),
      communicator_(communicator) {}

GradientReducer::~GradientReducer() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void GradientReducer::Begin(std::span<float> gradients) {
  std::lock_guard lock(mutex_);
  // Upcycling replaces the model, and with it the size of the gradients.
  if (gradients.size() != gradients_.size()) {
    readiness_ =
        BucketReadiness(CutGradients(gradients.size(), bucket_size_, communicator_.world_size()));
  }
  gradients_ = gradients;
  readiness_.Reset();
  done_ = 0;
}

void GradientReducer::Ready(Shard part) {
  if (background_ == nullptr) return;
  std::lock_guard lock(mutex_);
  readiness_.Add(part);
  changed_.notify_all();
}

absl::Status GradientReducer::Finish() {
  if (background_ == nullptr) {
    for (const GradientBucket& bucket : readiness_.buckets()) {
      RETURN_IF_ERROR(Reduce(bucket, communicator_));
    }
    return absl::OkStatus();
  }
  // Backward is over: the background thread may now occupy a core while it waits for other ranks.
  background_->SetUrgent(true);
  std::unique_lock lock(mutex_);
  // Autograd reports no weights that this rank's last micro-batch does not reach, and a rank
  // without micro-batches reports none at all. What has not been reported is final now, too.
  readiness_.AddAll();
  changed_.notify_all();
  changed_.wait(lock, [this] { return finished(); });
  background_->SetUrgent(false);
  return status_;
}

// The background thread. Collectives match up between ranks by their order alone, while autograd
// may complete parameters in a different order on each rank; so a bucket is sent only when all
// buckets before it are complete (num_ready). The thread has its own communicator: its calls and
// those of the training thread are independent and need no common order.
//
// The mutex is released during the reduction so that Ready never blocks the backward pass. This is
// race-free: a complete bucket is not written any more, and Begin, which replaces gradients_ and
// readiness_, runs only after Finish has waited for done_ to reach the last bucket.
void GradientReducer::ReduceInBackground() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock,
                  [this] { return stopping_ || (status_.ok() && done_ < readiness_.num_ready()); });
    if (stopping_) return;
    const GradientBucket bucket = readiness_.buckets()[done_];
    lock.unlock();
    absl::Status status = RunCatching([&] { return Reduce(bucket, *background_); });
    lock.lock();
    if (status.ok()) {
      ++done_;
    } else {
      status_ = std::move(status);
    }
    changed_.notify_all();
  }
}

absl::Status GradientReducer::Reduce(const GradientBucket& bucket, Communicator& communicator) {
  const std::span<float> part = gradients_.subspan(bucket.range.begin, bucket.range.size());
  return sharding_ == v1::ZERO_1 ? communicator.ReduceSum(part, bucket.owner)
                                 : communicator.AllReduceSum(part);
}

}  // namespace braid

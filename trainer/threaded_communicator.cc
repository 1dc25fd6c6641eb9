#include "trainer/threaded_communicator.h"

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

#include "formats/check.h"
#include "formats/status_macros.h"

namespace braid {
namespace {

// A barrier that can be broken, and a place for each rank to show its buffer.
class Meeting {
 public:
  explicit Meeting(int world_size) : buffers_(world_size) {}

  // Waits for all ranks. Aborted when the meeting was broken before all came.
  absl::Status Arrive() {
    std::unique_lock lock(mutex_);
    const int64_t round = round_;
    if (++arrived_ == static_cast<int>(buffers_.size())) {
      arrived_ = 0;
      ++round_;
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return broken_ || round_ != round; });
    // A round that all ranks reached stands, however soon after it was broken.
    return round_ != round ? absl::OkStatus() : absl::AbortedError("another rank failed");
  }

  void Break() {
    std::lock_guard lock(mutex_);
    broken_ = true;
    changed_.notify_all();
  }

  void Show(int rank, const void* buffer) { buffers_[rank] = buffer; }
  template <class T>
  const T* Shown(int rank) const {
    return static_cast<const T*>(buffers_[rank]);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int arrived_ = 0;
  int64_t round_ = 0;
  bool broken_ = false;
  // Written before and read after Arrive, which orders the accesses.
  std::vector<const void*> buffers_;
};

class ThreadedCommunicator final : public Communicator {
 public:
  ThreadedCommunicator(Meeting* meeting, int rank, int world_size)
      : meeting_(meeting), rank_(rank), world_size_(world_size) {}

  int rank() const override { return rank_; }
  int world_size() const override { return world_size_; }
  absl::Status AllReduceSum(std::span<float> values) override { return Sum(values); }
  absl::Status AllReduceSum(std::span<double> values) override { return Sum(values); }

  absl::Status Broadcast(std::span<char> bytes, int root) override {
    meeting_->Show(rank_, bytes.data());
    RETURN_IF_ERROR(meeting_->Arrive());
    const char* source = meeting_->Shown<char>(root);
    if (rank_ != root) std::copy_n(source, bytes.size(), bytes.begin());
    return meeting_->Arrive();
  }

  absl::Status Barrier() override { return meeting_->Arrive(); }
  void Abort(int) override { meeting_->Break(); }

 private:
  template <class T>
  absl::Status Sum(std::span<T> values) {
    meeting_->Show(rank_, values.data());
    RETURN_IF_ERROR(meeting_->Arrive());
    std::vector<T> sum(values.size());
    for (int r = 0; r < world_size_; ++r) {
      const T* shown = meeting_->Shown<T>(r);
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += shown[i];
    }
    RETURN_IF_ERROR(meeting_->Arrive());
    std::copy(sum.begin(), sum.end(), values.begin());
    return absl::OkStatus();
  }

  Meeting* meeting_;
  int rank_;
  int world_size_;
};

}  // namespace

std::vector<absl::Status> RunThreadedRanks(int world_size,
                                           const std::function<absl::Status(Communicator&)>& body) {
  BRAID_CHECK(world_size > 0) << world_size;
  Meeting meeting(world_size);
  std::vector<absl::Status> results(world_size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world_size; ++rank) {
    threads.emplace_back([&, rank] {
      ThreadedCommunicator communicator(&meeting, rank, world_size);
      results[rank] = body(communicator);
      if (!results[rank].ok()) communicator.Abort(1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

}  // namespace braid

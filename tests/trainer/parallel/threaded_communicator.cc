#include "tests/trainer/parallel/threaded_communicator.h"

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

#include "base/check.h"
#include "base/status_macros.h"
#include "model/config/shard.h"

namespace braid {
namespace {

// A barrier that can be broken, with a slot in which each rank publishes its buffer.
class Meeting {
 public:
  explicit Meeting(int world_size) : buffers_(world_size) {}

  // Waits for all ranks. Aborted when the meeting was broken before all arrived.
  absl::Status Arrive() {
    std::unique_lock lock(mutex_);
    // Ranks wait for the number of the round and not for the count, which a fast rank may raise for
    // the next round before a slow one wakes.
    const int64_t round = round_;
    if (++arrived_ == static_cast<int>(buffers_.size())) {
      arrived_ = 0;
      ++round_;
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return broken_ || round_ != round; });
    // A round that all ranks reached succeeds, even if the meeting was broken right after.
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

// The meetings of one group of ranks; breaking one breaks all.
class Meetings {
 public:
  explicit Meetings(int world_size) : world_size_(world_size) {}

  Meeting* Add() {
    std::lock_guard lock(mutex_);
    meetings_.push_back(std::make_unique<Meeting>(world_size_));
    // A rank may have aborted before this call; then nothing else would break the new meeting.
    if (broken_) meetings_.back()->Break();
    return meetings_.back().get();
  }

  void Break() {
    std::lock_guard lock(mutex_);
    broken_ = true;
    for (const auto& meeting : meetings_) meeting->Break();
  }

 private:
  const int world_size_;
  std::mutex mutex_;
  bool broken_ = false;
  std::vector<std::unique_ptr<Meeting>> meetings_;
};

class ThreadedCommunicator final : public Communicator {
 public:
  ThreadedCommunicator(Meetings* meetings, Meeting* meeting, int rank, int world_size)
      : meetings_(meetings), meeting_(meeting), rank_(rank), world_size_(world_size) {}

  int rank() const override { return rank_; }
  int world_size() const override { return world_size_; }
  absl::Status AllReduceSum(std::span<float> values) override { return Sum(values, kEveryone); }
  absl::Status AllReduceSum(std::span<double> values) override { return Sum(values, kEveryone); }
  absl::Status ReduceSum(std::span<float> values, int root) override { return Sum(values, root); }

  absl::Status AllGatherShards(std::span<float> values) override {
    meeting_->Show(rank_, values.data());
    RETURN_IF_ERROR(meeting_->Arrive());
    for (int r = 0; r < world_size_; ++r) {
      const Shard part = ShardOf(values.size(), r, world_size_);
      // Others read this rank's own part meanwhile, so it must not be written.
      if (r == rank_) continue;
      std::copy_n(meeting_->Shown<float>(r) + part.begin, part.size(), values.data() + part.begin);
    }
    // A buffer may change or be freed only after all ranks have copied from it.
    return meeting_->Arrive();
  }

  absl::Status Broadcast(std::span<char> bytes, int root) override {
    meeting_->Show(rank_, bytes.data());
    RETURN_IF_ERROR(meeting_->Arrive());
    const char* source = meeting_->Shown<char>(root);
    if (rank_ != root) std::copy_n(source, bytes.size(), bytes.begin());
    return meeting_->Arrive();
  }

  absl::Status Barrier() override { return meeting_->Arrive(); }
  absl::StatusOr<std::unique_ptr<Communicator>> Duplicate() override {
    Meeting* meeting = rank_ == 0 ? meetings_->Add() : nullptr;
    RETURN_IF_ERROR(Broadcast({reinterpret_cast<char*>(&meeting), sizeof(meeting)}, 0));
    return std::make_unique<ThreadedCommunicator>(meetings_, meeting, rank_, world_size_);
  }

  void Abort(int) override { meetings_->Break(); }

 private:
  static constexpr int kEveryone = -1;

  // Sums into the buffer of rank `root`, or of every rank.
  template <class T>
  absl::Status Sum(std::span<T> values, int root) {
    meeting_->Show(rank_, values.data());
    RETURN_IF_ERROR(meeting_->Arrive());
    std::vector<T> sum;
    if (root == kEveryone || root == rank_) sum = SumShown<T>(values.size());
    // Until all ranks arrive here, others may still read this buffer.
    RETURN_IF_ERROR(meeting_->Arrive());
    std::copy(sum.begin(), sum.end(), values.begin());
    return absl::OkStatus();
  }

  template <class T>
  std::vector<T> SumShown(size_t size) const {
    std::vector<T> sum(size);
    for (int r = 0; r < world_size_; ++r) {
      const T* shown = meeting_->Shown<T>(r);
      for (size_t i = 0; i < size; ++i) sum[i] += shown[i];
    }
    return sum;
  }

  Meetings* meetings_;
  Meeting* meeting_;
  int rank_;
  int world_size_;
};

}  // namespace

std::vector<absl::Status> RunThreadedRanks(int world_size,
                                           const std::function<absl::Status(Communicator&)>& body) {
  BRAID_CHECK(world_size > 0) << world_size;
  Meetings meetings(world_size);
  Meeting* const meeting = meetings.Add();
  std::vector<absl::Status> results(world_size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world_size; ++rank) {
    threads.emplace_back([&, rank] {
      ThreadedCommunicator communicator(&meetings, meeting, rank, world_size);
      results[rank] = body(communicator);
      if (!results[rank].ok()) communicator.Abort(1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

}  // namespace braid

// Collective operations of the ranks of one run. The training loop depends only on this interface:
// a single process, MPI, or threads in a test.
#ifndef BRAID_TRAINER_PARALLEL_COMMUNICATOR_H_
#define BRAID_TRAINER_PARALLEL_COMMUNICATOR_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace braid {

// The ranks of one run. Every rank makes the same calls in the same order with the same sizes; a
// call returns when it is complete on this rank. Results are bit-identical on every rank. Used from
// one thread per rank; see Duplicate for a second one.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;  // from 0
  virtual int world_size() const = 0;

  // Replaces `values` by the elementwise sum over ranks.
  virtual absl::Status AllReduceSum(std::span<float> values) = 0;
  virtual absl::Status AllReduceSum(std::span<double> values) = 0;
  // Replaces `values` on rank `root` by the elementwise sum over ranks. The contents on the other
  // ranks are unspecified afterwards.
  virtual absl::Status ReduceSum(std::span<float> values, int root) = 0;
  // Copies each rank's shard, ShardOf(values.size(), r, world_size()), to all other ranks, in
  // place.
  virtual absl::Status AllGatherShards(std::span<float> values) = 0;
  // Copies the bytes of rank `root` to all ranks.
  virtual absl::Status Broadcast(std::span<char> bytes, int root) = 0;
  // Returns once every rank has called it.
  virtual absl::Status Barrier() = 0;

  // Returns another communicator of the same ranks, for a second thread: its calls and those of
  // this one do not wait for each other. Collective; the result must not outlive this one.
  // FailedPrecondition when the ranks cannot be used from two threads.
  virtual absl::StatusOr<std::unique_ptr<Communicator>> Duplicate() = 0;

  // Sets whether this rank has nothing to compute while it waits in a call, so that waiting may
  // occupy a core. Callable from any thread. Duplicates start as not urgent.
  virtual void SetUrgent(bool urgent) { (void)urgent; }

  // Ends all ranks, including those waiting in a call. Does not return under MPI.
  virtual void Abort(int exit_code) = 0;
};

// The communicator of a run of one rank.
class SingleProcess final : public Communicator {
 public:
  int rank() const override { return 0; }
  int world_size() const override { return 1; }
  absl::Status AllReduceSum(std::span<float>) override { return absl::OkStatus(); }
  absl::Status AllReduceSum(std::span<double>) override { return absl::OkStatus(); }
  absl::Status ReduceSum(std::span<float>, int) override { return absl::OkStatus(); }
  absl::Status AllGatherShards(std::span<float>) override { return absl::OkStatus(); }
  absl::Status Broadcast(std::span<char>, int) override { return absl::OkStatus(); }
  absl::Status Barrier() override { return absl::OkStatus(); }
  absl::StatusOr<std::unique_ptr<Communicator>> Duplicate() override {
    return std::make_unique<SingleProcess>();
  }
  void Abort(int) override {}
};

// Returns the text of rank `root` on every rank; `text` of the other ranks is ignored.
absl::StatusOr<std::string> BroadcastText(Communicator& communicator, std::string text, int root);

// Returns the status of the lowest rank that failed, on every rank; OK when none did. A system
// error with the code DATA_LOSS (EIO) becomes UNAVAILABLE. Collective.
absl::Status AgreeOnStatus(Communicator& communicator, const absl::Status& status);

// Returns whether an error was returned by AgreeOnStatus: then every rank has it, and they can
// still make collective calls.
bool IsAgreed(const absl::Status& status);

// Returns the numbers of all ranks, by rank, on every rank.
absl::StatusOr<std::vector<uint64_t>> GatherNumbers(Communicator& communicator, uint64_t mine);

// Returns true on every rank when `value` is true on any.
absl::StatusOr<bool> AnyRank(Communicator& communicator, bool value);

}  // namespace braid

#endif  // BRAID_TRAINER_PARALLEL_COMMUNICATOR_H_

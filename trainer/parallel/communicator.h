// What the ranks of one run do together. The training loop knows only this
// interface: one process, MPI, or threads in a test.
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

// Every rank makes the same calls in the same order with the same sizes; a call
// returns when it is complete on this rank. Results are the same bits on every
// rank. Called from one thread a rank; see Duplicate for more.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int world_size() const = 0;

  // In place: the elementwise sum over ranks.
  virtual absl::Status AllReduceSum(std::span<float> values) = 0;
  virtual absl::Status AllReduceSum(std::span<double> values) = 0;
  // In place on rank `root`: the elementwise sum over ranks. What it leaves in the
  // buffers of the others is unspecified.
  virtual absl::Status ReduceSum(std::span<float> values, int root) = 0;
  // In place: rank r's part ShardOf(values.size(), r, world_size()) for everyone.
  virtual absl::Status AllGatherShards(std::span<float> values) = 0;
  // Rank `root`'s bytes for everyone.
  virtual absl::Status Broadcast(std::span<char> bytes, int root) = 0;
  virtual absl::Status Barrier() = 0;

  // The same ranks once more, for a second thread: its calls and those of this one
  // do not wait for each other. Called on every rank, as the rest; must not outlive
  // this one. FailedPrecondition when the ranks cannot be used from two threads.
  virtual absl::StatusOr<std::unique_ptr<Communicator>> Duplicate() = 0;

  // Whether this rank has nothing to compute while it waits in a call: then waiting
  // may take a core. From any thread. Not so for a duplicate until it is said.
  virtual void SetUrgent(bool urgent) { (void)urgent; }

  // Ends all ranks, those waiting in a call too. Under MPI it does not return.
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

// Rank `root`'s text for everyone; `text` of the other ranks is not looked at.
absl::StatusOr<std::string> BroadcastText(Communicator& communicator, std::string text, int root);

// The status of the lowest rank that failed, on every rank; OK when none did.
absl::Status AgreeOnStatus(Communicator& communicator, const absl::Status& status);

// An error returned by AgreeOnStatus: every rank has it, so that they can still call
// the communicator together.
bool IsAgreed(const absl::Status& status);

// Every rank's number, by rank, on every rank.
absl::StatusOr<std::vector<uint64_t>> GatherNumbers(Communicator& communicator, uint64_t mine);

// True on every rank when it is on any.
absl::StatusOr<bool> AnyRank(Communicator& communicator, bool value);

}  // namespace braid

#endif  // BRAID_TRAINER_PARALLEL_COMMUNICATOR_H_

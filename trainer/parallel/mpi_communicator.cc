#include "trainer/parallel/mpi_communicator.h"

// Leaves out Open MPI's C++ bindings, which MPI 3.0 removed from the standard.
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "model/config/shard.h"
#include "model/kernels/phase_times.h"

namespace braid {
namespace {

// MPI counts are of type int; a call covers at most this many elements.
constexpr size_t kMaxCount = size_t{1} << 28;

absl::Status FromMpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return absl::OkStatus();
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  return absl::UnavailableError(absl::StrCat(call, ": ", std::string(text, length)));
}

// How long to poll without pause, in case the call completes at once; longer when no other thread
// of this rank needs the core.
constexpr std::chrono::microseconds kSpin(100);
constexpr std::chrono::milliseconds kUrgentSpin(200);
// pause between polls; the timer's slack about doubles it
constexpr std::chrono::microseconds kPause(50);

class MpiCommunicator : public Communicator {
 public:
  explicit MpiCommunicator(MPI_Comm comm) : comm_(comm) {
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &world_size_);
    // By default MPI ends the program at once. An error that is returned is logged and recorded in
    // exit.json first.
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  }

  int rank() const override { return rank_; }
  int world_size() const override { return world_size_; }

  // Every rank sums its own shard, then all ranks gather the sums, which uses both directions of
  // every link. Open MPI's own non-blocking call (4.1) reduces and then broadcasts instead.
  absl::Status AllReduceSum(std::span<float> values) override {
    return ForWindows(values, [this](std::span<float> window) {
      RETURN_IF_ERROR(SumOwnShard(window));
      return AllGatherShards(window);
    });
  }

  absl::Status AllReduceSum(std::span<double> values) override {
    return ForWindows(values, [this](std::span<double> window) {
      MPI_Request request;
      const int code = MPI_Iallreduce(MPI_IN_PLACE, window.data(), static_cast<int>(window.size()),
                                      MPI_DOUBLE, MPI_SUM, comm_, &request);
      return Complete(code, request, "MPI_Iallreduce");
    });
  }

  absl::Status ReduceSum(std::span<float> values, int root) override {
    return ForWindows(values, [this, root](std::span<float> window) {
      MPI_Request request;
      const void* const source = rank_ == root ? MPI_IN_PLACE : window.data();
      const int code = MPI_Ireduce(source, window.data(), static_cast<int>(window.size()),
                                   MPI_FLOAT, MPI_SUM, root, comm_, &request);
      return Complete(code, request, "MPI_Ireduce");
    });
  }

  absl::Status AllGatherShards(std::span<float> values) override {
    for (size_t begin = 0; begin < values.size(); begin += kMaxCount) {
      RETURN_IF_ERROR(GatherWindow(values, {begin, std::min(begin + kMaxCount, values.size())}));
    }
    return absl::OkStatus();
  }

  absl::Status Broadcast(std::span<char> bytes, int root) override {
    return ForWindows(bytes, [this, root](std::span<char> window) {
      MPI_Request request;
      const int code = MPI_Ibcast(window.data(), static_cast<int>(window.size()), MPI_CHAR, root,
                                  comm_, &request);
      return Complete(code, request, "MPI_Ibcast");
    });
  }

  absl::Status Barrier() override {
    MPI_Request request;
    const int code = MPI_Ibarrier(comm_, &request);
    return Complete(code, request, "MPI_Ibarrier");
  }

  absl::StatusOr<std::unique_ptr<Communicator>> Duplicate() override;
  void SetUrgent(bool urgent) override { urgent_ = urgent; }
  void Abort(int exit_code) override { MPI_Abort(MPI_COMM_WORLD, exit_code); }

 protected:
  const MPI_Comm comm_;

 private:
  // Completes a started collective. Open MPI spins while it waits, also inside a blocking call, and
  // so takes a core from the computation; but it moves data only while it is called. So during a
  // computation, a call that does not complete at once is polled every 0.1 ms: this costs a
  // fraction of a core and still keeps a 10 Gbit/s link busy. Without a computation it is polled as
  // often as other programs leave the core free.
  absl::Status Complete(int code, MPI_Request request, const char* call) const {
    RETURN_IF_ERROR(FromMpi(code, call));
    // Only shown: phases must not nest, and callers that measure the time have a phase of their
    // own.
    const ScopedShownPhase waiting(Phase::kCommunication);
    const auto start = std::chrono::steady_clock::now();
    for (;;) {
      int done = 0;
      RETURN_IF_ERROR(FromMpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), call));
      if (done) return absl::OkStatus();
      const auto waited = std::chrono::steady_clock::now() - start;
      if (waited < kSpin) continue;
      if (urgent_ && waited < kUrgentSpin) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(kPause);
      }
    }
  }

  template <class T, class Call>
  static absl::Status ForWindows(std::span<T> values, Call call) {
    for (size_t begin = 0; begin < values.size(); begin += kMaxCount) {
      RETURN_IF_ERROR(call(values.subspan(begin, std::min(kMaxCount, values.size() - begin))));
    }
    return absl::OkStatus();
  }

  // Replaces this rank's shard by the sum over ranks, taken in rank order, so that the bits of the
  // sum do not depend on timing. MPI_Reduce_scatter would leave the order to the library.
  absl::Status SumOwnShard(std::span<float> values) {
    const Shard own = ShardOf(values.size(), rank_, world_size_);
    const int own_size = static_cast<int>(own.size());
    std::vector<int> counts(world_size_), offsets(world_size_);
    std::vector<int> own_counts(world_size_, own_size), own_offsets(world_size_);
    for (int r = 0; r < world_size_; ++r) {
      const Shard shard = ShardOf(values.size(), r, world_size_);
      counts[r] = static_cast<int>(shard.size());
      offsets[r] = static_cast<int>(shard.begin);
      own_offsets[r] = r * own_size;
    }
    std::vector<float> parts(world_size_ * own.size());
    MPI_Request request;
    const int code =
        MPI_Ialltoallv(values.data(), counts.data(), offsets.data(), MPI_FLOAT, parts.data(),
                       own_counts.data(), own_offsets.data(), MPI_FLOAT, comm_, &request);
    RETURN_IF_ERROR(Complete(code, request, "MPI_Ialltoallv"));
    float* const sum = values.data() + own.begin;
    std::copy_n(parts.begin(), own.size(), sum);
    for (int r = 1; r < world_size_; ++r) {
      const float* const part = parts.data() + own_offsets[r];
      for (size_t i = 0; i < own.size(); ++i) sum[i] += part[i];
    }
    return absl::OkStatus();
  }

  // Gathers the parts of all ranks' shards that lie in `window`.
  absl::Status GatherWindow(std::span<float> values, Shard window) {
    std::vector<int> counts(world_size_), offsets(world_size_);
    for (int r = 0; r < world_size_; ++r) {
      const Shard shard = ShardOf(values.size(), r, world_size_);
      const size_t begin = std::clamp(shard.begin, window.begin, window.end);
      const size_t end = std::clamp(shard.end, window.begin, window.end);
      counts[r] = static_cast<int>(end - begin);
      offsets[r] = static_cast<int>(begin - window.begin);
    }
    MPI_Request request;
    const int code =
        MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, values.data() + window.begin,
                        counts.data(), offsets.data(), MPI_FLOAT, comm_, &request);
    return Complete(code, request, "MPI_Iallgatherv");
  }

  int rank_ = 0;
  int world_size_ = 1;
  std::atomic<bool> urgent_ = true;
};

class DuplicatedCommunicator final : public MpiCommunicator {
 public:
  using MpiCommunicator::MpiCommunicator;
  ~DuplicatedCommunicator() override {
    MPI_Comm comm = comm_;
    MPI_Comm_free(&comm);
  }
};

absl::StatusOr<std::unique_ptr<Communicator>> MpiCommunicator::Duplicate() {
  int provided = MPI_THREAD_SINGLE;
  MPI_Query_thread(&provided);
  if (provided < MPI_THREAD_MULTIPLE) {
    return absl::FailedPreconditionError(
        "this MPI library does not support calls from two threads (MPI_THREAD_MULTIPLE); set "
        "reduction.after_backward: true");
  }
  MPI_Comm comm = MPI_COMM_NULL;
  RETURN_IF_ERROR(FromMpi(MPI_Comm_dup(comm_, &comm), "MPI_Comm_dup"));
  auto duplicate = std::make_unique<DuplicatedCommunicator>(comm);
  duplicate->SetUrgent(false);
  return duplicate;
}

class MpiWorld final : public MpiCommunicator {
 public:
  MpiWorld() : MpiCommunicator(MPI_COMM_WORLD) {}
  ~MpiWorld() override { MPI_Finalize(); }
};

bool StartedByMpiLauncher() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    if (std::getenv(name) != nullptr) return true;
  }
  return false;
}

// Without PMIx, srun starts programs that each believe to be the only one. mpirun within an
// allocation may use fewer ranks than tasks, and reports how many it started.
absl::Status CheckSlurmTasks(int world_size) {
  const char* tasks = std::getenv("SLURM_NTASKS");
  if (tasks == nullptr || std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr) return absl::OkStatus();
  if (std::getenv("SLURM_PROCID") == nullptr || std::atoi(tasks) == world_size) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("Slurm started ", tasks, " tasks (SLURM_NTASKS) but MPI sees ", world_size,
                   "; start the ranks with 'srun --mpi=pmix' or 'mpirun'"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> JoinRanks() {
  if (!StartedByMpiLauncher()) return std::make_unique<SingleProcess>();
  int provided = MPI_THREAD_SINGLE;
  RETURN_IF_ERROR(FromMpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided),
                          "MPI_Init_thread"));
  // MPI_THREAD_MULTIPLE is needed only by Duplicate, which checks for it: with
  // reduction.after_backward one thread makes all calls.
  if (provided < MPI_THREAD_FUNNELED) {
    return absl::FailedPreconditionError(
        "this MPI library does not support threads (MPI_THREAD_FUNNELED)");
  }
  auto communicator = std::make_unique<MpiWorld>();
  RETURN_IF_ERROR(CheckSlurmTasks(communicator->world_size()));
  return communicator;
}

}  // namespace braid

#include "trainer/mpi_communicator.h"

#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "formats/status_macros.h"

namespace braid {
namespace {

// MPI counts are int; a call takes at most this many elements.
constexpr size_t kMaxCount = size_t{1} << 28;

absl::Status FromMpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return absl::OkStatus();
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  return absl::UnavailableError(absl::StrCat(call, ": ", std::string(text, length)));
}

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size_);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  }
  ~MpiCommunicator() override { MPI_Finalize(); }

  int rank() const override { return rank_; }
  int world_size() const override { return world_size_; }
  absl::Status AllReduceSum(std::span<float> values) override { return Sum(values); }
  absl::Status AllReduceSum(std::span<double> values) override { return Sum(values); }

  absl::Status Broadcast(std::span<char> bytes, int root) override {
    for (size_t begin = 0; begin < bytes.size(); begin += kMaxCount) {
      const int count = static_cast<int>(std::min(kMaxCount, bytes.size() - begin));
      RETURN_IF_ERROR(FromMpi(
          MPI_Bcast(bytes.data() + begin, count, MPI_CHAR, root, MPI_COMM_WORLD), "MPI_Bcast"));
    }
    return absl::OkStatus();
  }

  absl::Status Barrier() override { return FromMpi(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier"); }
  void Abort(int exit_code) override { MPI_Abort(MPI_COMM_WORLD, exit_code); }

 private:
  template <class T>
  absl::Status Sum(std::span<T> values) {
    const MPI_Datatype type = std::is_same_v<T, float> ? MPI_FLOAT : MPI_DOUBLE;
    for (size_t begin = 0; begin < values.size(); begin += kMaxCount) {
      const int count = static_cast<int>(std::min(kMaxCount, values.size() - begin));
      RETURN_IF_ERROR(FromMpi(
          MPI_Allreduce(MPI_IN_PLACE, values.data() + begin, count, type, MPI_SUM, MPI_COMM_WORLD),
          "MPI_Allreduce"));
    }
    return absl::OkStatus();
  }

  int rank_ = 0;
  int world_size_ = 1;
};

bool StartedByMpiLauncher() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    if (std::getenv(name) != nullptr) return true;
  }
  return false;
}

// Without PMIx, srun starts that many programs that each believe to be alone.
// mpirun within an allocation may use fewer ranks, and says how many it started.
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
  RETURN_IF_ERROR(FromMpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided),
                          "MPI_Init_thread"));
  if (provided < MPI_THREAD_FUNNELED) {
    return absl::FailedPreconditionError("MPI lacks thread support (MPI_THREAD_FUNNELED)");
  }
  auto communicator = std::make_unique<MpiCommunicator>();
  RETURN_IF_ERROR(CheckSlurmTasks(communicator->world_size()));
  return communicator;
}

}  // namespace braid

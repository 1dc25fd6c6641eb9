#include "trainer/training_run.h"

#include <cstdlib>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "tests/trainer/tiny_run.h"

namespace braid {
namespace training_run_test {

// Rank 0 of `world_size`, which answers all collective calls alike.
class UniformRank : public Communicator {
 public:
  explicit UniformRank(int world_size) : world_size_(world_size) {}

  int rank() const override { return 0; }
  int world_size() const override { return world_size_; }
  absl::Status AllReduceSum(std::span<float>) override { return Answer(); }
  absl::Status AllReduceSum(std::span<double>) override { return Answer(); }
  absl::Status ReduceSum(std::span<float>, int) override { return Answer(); }
  absl::Status AllGatherShards(std::span<float>) override { return Answer(); }
  absl::Status Broadcast(std::span<char>, int) override { return Answer(); }
  absl::Status Barrier() override { return Answer(); }
  void Abort(int) override {}

 private:
  virtual absl::Status Answer() = 0;

  const int world_size_;
};

// Rank 0 of two. The other one is gone, which the first collective call reports.
class LostRank final : public UniformRank {
 public:
  explicit LostRank(RunDirectory run) : UniformRank(2), run_(std::move(run)) {}

  absl::StatusOr<std::unique_ptr<Communicator>> Duplicate() override { return Answer(); }

  // What exit.json held at that call.
  const std::optional<ExitRecord>& seen() const { return seen_; }
  bool called() const { return called_; }

 private:
  absl::Status Answer() override {
    if (!called_) seen_ = run_.ReadExit();
    called_ = true;
    return absl::UnavailableError("the other rank is gone");
  }

  const RunDirectory run_;
  std::optional<ExitRecord> seen_;
  bool called_ = false;
};

// A rank may fail, and write exit.json, before rank 0 has read the spec.
TEST(TrainingRunTest, KeepsTheResultOfAnotherRankAndRemovesThatOfAnEarlierAttempt) {
  const std::filesystem::path dataset = NewDirectory("data");
  WriteTinyDataset(dataset);
  const RunDirectory run(NewDirectory("run"));
  ASSERT_TRUE(run.WriteSpec(TinySpec(dataset, 4)).ok());
  ASSERT_EQ(setenv(kNonceVariable, "now", 1), 0);
  for (const std::string nonce : {"now", "before", ""}) {
    ASSERT_TRUE(run.WriteExit({std::string(kFailed), "no such dataset", 0, nonce, false}, 1).ok());
    LostRank ranks(run);
    EXPECT_NE(RunTraining(run, ranks, [] { return false; }), 0);
    ASSERT_TRUE(ranks.called());
    EXPECT_EQ(ranks.seen().has_value(), nonce == "now") << nonce;
  }
  unsetenv(kNonceVariable);
}

// A run of one rank whose memory is exhausted at a call: that of a container or that of a tensor,
// which LibTorch reports by this text.
class ExhaustedRank final : public UniformRank {
 public:
  ExhaustedRank(int calls, bool tensor) : UniformRank(1), calls_left_(calls), tensor_(tensor) {}

  absl::StatusOr<std::unique_ptr<Communicator>> Duplicate() override {
    return std::make_unique<SingleProcess>();
  }

 private:
  absl::Status Answer() override {
    if (--calls_left_ > 0) return absl::OkStatus();
    if (!tensor_) throw std::bad_alloc();
    throw std::runtime_error(
        "[enforce fail at alloc_cpu.cpp:75] err == 0. DefaultCPUAllocator: can't allocate memory: "
        "you tried to allocate 288230376151711744 bytes. Error code 12 (Cannot allocate memory)");
  }

  int calls_left_;
  const bool tensor_;
};

TEST(TrainingRunTest, RunningOutOfMemoryKeepsTheStepReached) {
  const std::filesystem::path dataset = NewDirectory("data");
  WriteTinyDataset(dataset);
  for (const bool tensor : {false, true}) {
    const RunDirectory run(NewDirectory(tensor ? "tensor" : "container"));
    ASSERT_TRUE(run.WriteSpec(TinySpec(dataset, 1000)).ok());
    ExhaustedRank rank(200, tensor);
    EXPECT_NE(RunTraining(run, rank, [] { return false; }), 0);
    const std::optional<ExitRecord> exit = run.ReadExit();
    ASSERT_TRUE(exit.has_value());
    EXPECT_EQ(exit->outcome, kFailed);
    EXPECT_TRUE(exit->error.starts_with("out of memory; ")) << exit->error;
    EXPECT_GT(exit->step, 0);
    const int64_t recorded = run.ReadNewestMetrics()->step();  // before or after the failed call
    EXPECT_TRUE(exit->step == recorded || exit->step == recorded + 1) << exit->step;
  }
}

TEST(TrainingRunTest, AFailingDeviceIsTriedAgain) {
  const std::filesystem::path dataset = NewDirectory("data");
  WriteTinyDataset(dataset);
  const RunDirectory run(NewDirectory("run"));
  ASSERT_TRUE(run.WriteSpec(TinySpec(dataset, 4)).ok());
  std::filesystem::create_symlink("/proc/self/mem", run.metrics());  // its first byte: EIO
  SingleProcess alone;
  EXPECT_NE(RunTraining(run, alone, [] { return false; }), 0);
  const std::optional<ExitRecord> exit = run.ReadExit();
  ASSERT_TRUE(exit.has_value());
  EXPECT_NE(exit->error.find("Input/output error"), std::string::npos) << exit->error;
  EXPECT_TRUE(exit->retryable);
}

// The first spike goes back to the initial state, whose weights are gone.
TEST(TrainingRunTest, AFailedRollbackKeepsTheStepReached) {
  const std::filesystem::path dataset = NewDirectory("data");
  WriteTinyDataset(dataset, {.num_instances = 4000, .random_every = 50});
  const RunDirectory base = TinyBase(dataset), run(NewDirectory("run"));
  v1::RunSpec spec = TinySpec(dataset, 100);
  spec.set_init_from(base.root().string());
  spec.mutable_optimizer()->set_learning_rate(1e-2);
  spec.mutable_checkpoint()->set_every_steps(1000);
  spec.mutable_spikes()->set_policy(v1::ROLLBACK);
  spec.mutable_spikes()->set_threshold(3);
  spec.mutable_spikes()->set_window(16);
  ASSERT_TRUE(run.WriteSpec(spec).ok());
  int64_t steps = 0;
  SingleProcess alone;
  EXPECT_NE(RunTraining(run, alone,
                        [&] {
                          std::filesystem::remove_all(base.root());
                          ++steps;
                          return false;
                        }),
            0);
  const std::optional<ExitRecord> exit = run.ReadExit();
  ASSERT_TRUE(exit.has_value());
  EXPECT_NE(exit->error.find(base.root().string()), std::string::npos) << exit->error;
  EXPECT_GT(steps, 0);
  EXPECT_EQ(exit->step, steps);
}

}  // namespace training_run_test
}  // namespace braid

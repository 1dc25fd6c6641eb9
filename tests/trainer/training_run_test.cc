#include "trainer/training_run.h"

#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "tests/trainer/tiny_run.h"

namespace braid {
namespace training_run_test {

// Rank 0 of two. The other one is gone, which the first collective call reports.
class LostRank final : public Communicator {
 public:
  explicit LostRank(RunDirectory run) : run_(std::move(run)) {}

  int rank() const override { return 0; }
  int world_size() const override { return 2; }
  absl::Status AllReduceSum(std::span<float>) override { return Lost(); }
  absl::Status AllReduceSum(std::span<double>) override { return Lost(); }
  absl::Status ReduceSum(std::span<float>, int) override { return Lost(); }
  absl::Status AllGatherShards(std::span<float>) override { return Lost(); }
  absl::Status Broadcast(std::span<char>, int) override { return Lost(); }
  absl::Status Barrier() override { return Lost(); }
  absl::StatusOr<std::unique_ptr<Communicator>> Duplicate() override { return Lost(); }
  void Abort(int) override {}

  // What exit.json held at that call.
  const std::optional<ExitRecord>& seen() const { return seen_; }
  bool called() const { return called_; }

 private:
  absl::Status Lost() {
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

}  // namespace training_run_test
}  // namespace braid

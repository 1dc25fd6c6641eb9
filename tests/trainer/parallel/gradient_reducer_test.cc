#include "trainer/parallel/gradient_reducer.h"

#include <chrono>
#include <future>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/trainer/parallel/threaded_communicator.h"

namespace braid {
namespace gradient_reducer_test {

using testing::Each;

v1::ReductionConfig Reduction(int64_t bucket_bytes, bool after_backward = false) {
  v1::ReductionConfig config;
  config.set_bucket_bytes(bucket_bytes);
  config.set_after_backward(after_backward);
  return config;
}

float Gradient(int rank, int step, size_t i) {
  return static_cast<float>((i * 7 + static_cast<size_t>(rank * 5 + step)) % 101);
}

// Reports random parts in a different order on each rank.
void ReportAll(GradientReducer& reducer, size_t size, std::mt19937& random) {
  std::vector<Shard> parts;
  for (size_t begin = 0; begin < size;) {
    const size_t end = std::min<size_t>(size, begin + 1 + random() % 200);
    parts.push_back({begin, end});
    begin = end;
  }
  std::shuffle(parts.begin(), parts.end(), random);
  for (const Shard& part : parts) reducer.Ready(part);
}

// Ranks report in different orders, and the model changes its size between steps.
TEST(GradientReducerTest, SumsWhatTheRankOwns) {
  for (const auto sharding : {v1::ZERO_1, v1::REPLICATED}) {
    for (const bool after_backward : {false, true}) {
      const auto statuses = RunThreadedRanks(3, [&](Communicator& ranks) {
        std::mt19937 random(static_cast<unsigned>(ranks.rank()));
        auto reducer = *GradientReducer::Create(sharding, Reduction(400, after_backward), ranks);
        for (int step = 0; step < 6; ++step) {
          std::vector<float> gradients(step < 3 ? 1000 : 5003);
          for (size_t i = 0; i < gradients.size(); ++i) {
            gradients[i] = Gradient(ranks.rank(), step, i);
          }
          reducer->Begin(gradients);
          if (step % 2 == 0) ReportAll(*reducer, gradients.size(), random);
          const absl::Status status = reducer->Finish();
          if (!status.ok()) return status;
          const Shard own = sharding == v1::ZERO_1 ? ShardOf(gradients.size(), ranks.rank(), 3)
                                                   : Shard{0, gradients.size()};
          for (size_t i = own.begin; i < own.end; ++i) {
            const float sum = Gradient(0, step, i) + Gradient(1, step, i) + Gradient(2, step, i);
            if (gradients[i] != sum) return absl::InternalError("wrong sum");
          }
        }
        return absl::OkStatus();
      });
      EXPECT_THAT(statuses, Each(absl::OkStatus()));
    }
  }
}

// A communicator for rank 0 of two, whose first call reports that it was made and then fails.
class FirstCall final : public Communicator {
 public:
  explicit FirstCall(std::promise<size_t>* size) : size_(size) {}
  int rank() const override { return 0; }
  int world_size() const override { return 2; }
  absl::Status AllReduceSum(std::span<float>) override { return absl::OkStatus(); }
  absl::Status AllReduceSum(std::span<double>) override { return absl::OkStatus(); }
  absl::Status ReduceSum(std::span<float> values, int) override {
    size_->set_value(values.size());
    return absl::UnavailableError("the link is gone");
  }
  absl::Status AllGatherShards(std::span<float>) override { return absl::OkStatus(); }
  absl::Status Broadcast(std::span<char>, int) override { return absl::OkStatus(); }
  absl::Status Barrier() override { return absl::OkStatus(); }
  absl::StatusOr<std::unique_ptr<Communicator>> Duplicate() override {
    return std::make_unique<FirstCall>(size_);
  }
  void Abort(int) override {}

 private:
  std::promise<size_t>* size_;
};

TEST(GradientReducerTest, SendsABucketBeforeTheOthersAreReadyAndKeepsItsError) {
  std::promise<size_t> sent;
  std::future<size_t> size = sent.get_future();
  FirstCall ranks(&sent);
  auto reducer = *GradientReducer::Create(v1::ZERO_1, Reduction(400), ranks);
  std::vector<float> gradients(1000);
  reducer->Begin(gradients);
  reducer->Ready({800, 900});
  EXPECT_EQ(size.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  reducer->Ready({900, 1000});
  ASSERT_EQ(size.wait_for(std::chrono::seconds(30)), std::future_status::ready);
  EXPECT_EQ(size.get(), 100u);
  EXPECT_EQ(reducer->Finish(), absl::UnavailableError("the link is gone"));
}

// A rank that fails during backward leaves; the others are released.
TEST(GradientReducerTest, CanBeDestroyedInTheMiddleOfAStep) {
  const auto statuses = RunThreadedRanks(2, [](Communicator& ranks) {
    std::vector<float> gradients(1000);
    auto reducer = *GradientReducer::Create(v1::ZERO_1, Reduction(400), ranks);
    reducer->Begin(gradients);
    reducer->Ready({700, 1000});
    if (ranks.rank() == 1) return absl::InternalError("out of memory");
    return reducer->Finish();
  });
  EXPECT_EQ(statuses[0].code(), absl::StatusCode::kAborted);
  EXPECT_EQ(statuses[1], absl::InternalError("out of memory"));
}

}  // namespace gradient_reducer_test
}  // namespace braid

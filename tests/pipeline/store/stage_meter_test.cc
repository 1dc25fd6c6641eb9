#include "pipeline/store/stage_meter.h"

#include <gtest/gtest.h>

namespace braid {
namespace stage_meter_test {

class StageMeterTest : public testing::Test {
 protected:
  StageMeter Meter(const std::string& unit, int64_t rejects = 0) {
    return StageMeter({.stage = "s",
                       .unit = unit,
                       .bytes_per_document = 500,
                       .rejects = rejects,
                       .clock = [this] { return now_; },
                       .resident_bytes = [this] { return resident_; }});
  }

  double now_ = 1000;
  int64_t resident_ = 1 << 20;
};

TEST_F(StageMeterTest, MeasuresDocumentsBytesAndTheTimeLeft) {
  StageMeter meter = Meter("documents", /*rejects=*/7);
  EXPECT_EQ(meter.Started().eta_seconds(), 0);
  meter.At({.done = 0, .total = 1000});
  now_ += 2;
  resident_ = 5 << 20;
  const v1::StageProgress progress =
      meter.At({.done = 200, .total = 1000, .chunk = 3, .num_chunks = 10});
  EXPECT_EQ(progress.documents(), 200);
  EXPECT_EQ(progress.bytes(), 100'000);
  EXPECT_DOUBLE_EQ(progress.documents_per_second(), 100);
  EXPECT_DOUBLE_EQ(progress.bytes_per_second(), 50'000);
  EXPECT_DOUBLE_EQ(progress.eta_seconds(), 8);
  EXPECT_DOUBLE_EQ(progress.seconds(), 2);
  EXPECT_EQ(progress.chunk(), 3);
  EXPECT_EQ(progress.num_chunks(), 10);
  EXPECT_EQ(progress.rejects(), 7);
  EXPECT_EQ(progress.resident_bytes(), 5 << 20);
}

TEST_F(StageMeterTest, CountsDocumentsAndRejectsAlongWithBytes) {
  StageMeter meter = Meter("bytes");
  meter.At({.done = 0, .total = 4000, .documents = 0, .rejects = 0});
  now_ += 4;
  const auto progress = meter.At({.done = 1000, .total = 4000, .documents = 20, .rejects = 3});
  EXPECT_EQ(progress.bytes(), 1000);
  EXPECT_EQ(progress.rejects(), 3);
  EXPECT_DOUBLE_EQ(progress.documents_per_second(), 5);
  EXPECT_DOUBLE_EQ(progress.bytes_per_second(), 250);
  EXPECT_DOUBLE_EQ(progress.eta_seconds(), 12);
  EXPECT_EQ(meter.At({.done = 2000, .total = 4000}).rejects(), 3) << "not reported, so unchanged";
}

TEST_F(StageMeterTest, WorkOfAnEarlierAttemptDoesNotInflateTheRate) {
  StageMeter meter = Meter("documents");
  now_ += 1;
  EXPECT_EQ(meter.At({.done = 900'000, .total = 1'000'000}).documents_per_second(), 0);
  now_ += 1;
  const v1::StageProgress progress = meter.At({.done = 901'000, .total = 1'000'000});
  EXPECT_DOUBLE_EQ(progress.documents_per_second(), 1000);
  EXPECT_DOUBLE_EQ(progress.eta_seconds(), 99);
}

TEST_F(StageMeterTest, ForgetsWhatIsOlderThanTheWindow) {
  StageMeter meter = Meter("documents");
  int64_t done = 0;
  for (int i = 0; i < 100; ++i, now_ += 0.1) meter.At({.done = done += 1000, .total = 1 << 20});
  v1::StageProgress progress;
  const double slow_from = now_;
  while (now_ < slow_from + StageMeter::kWindowSeconds + 2) {
    now_ += 0.1;
    progress = meter.At({.done = done += 1, .total = 1 << 20});
  }
  EXPECT_NEAR(progress.documents_per_second(), 10, 0.5);
  EXPECT_NEAR(progress.eta_seconds(), ((1 << 20) - done) / 10.0, 6000);
}

TEST_F(StageMeterTest, AStallLowersTheRate) {
  StageMeter meter = Meter("documents");
  meter.At({.done = 0, .total = 100});
  now_ += 1;
  EXPECT_DOUBLE_EQ(meter.At({.done = 10, .total = 100}).documents_per_second(), 10);
  now_ += 9;
  EXPECT_DOUBLE_EQ(meter.At({.done = 10, .total = 100}).documents_per_second(), 1);
}

TEST_F(StageMeterTest, ASecondPassRestartsTheMeasurement) {
  StageMeter meter = Meter("documents");
  meter.At({.done = 0, .total = 100});
  now_ += 1;
  meter.At({.done = 100, .total = 100});
  EXPECT_EQ(meter.At({.done = 0, .total = 100}).documents_per_second(), 0);
  now_ += 2;
  const v1::StageProgress progress = meter.At({.done = 20, .total = 100});
  EXPECT_DOUBLE_EQ(progress.documents_per_second(), 10);
  EXPECT_DOUBLE_EQ(progress.eta_seconds(), 8);
}

TEST_F(StageMeterTest, OtherWorkHasItsUnitAndCountsInTheMeanOfTheStage) {
  StageMeter meter = Meter("documents");
  const v1::StageProgress other = meter.At({.done = 50, .documents = 0, .unit = "lessons"});
  EXPECT_EQ(other.unit(), "lessons");
  EXPECT_EQ(other.documents(), 0);
  EXPECT_EQ(other.total(), 0);
  now_ += 8;
  EXPECT_EQ(meter.At({.done = 0, .total = 1000}).unit(), "documents");
  now_ += 2;
  EXPECT_DOUBLE_EQ(meter.At({.done = 1000, .total = 1000}).documents_per_second(), 500);
  EXPECT_DOUBLE_EQ(meter.Completed(false).documents_per_second(), 100);
}

TEST_F(StageMeterTest, TheEndHasTheMeanOfTheWholeStage) {
  StageMeter meter = Meter("documents");
  meter.At({.done = 40, .total = 100});
  now_ += 1;
  meter.At({.done = 90, .total = 100});
  now_ += 5;
  const v1::StageProgress progress = meter.Completed(/*reused=*/false);
  EXPECT_TRUE(progress.complete());
  EXPECT_EQ(progress.done(), 100);
  EXPECT_DOUBLE_EQ(progress.documents_per_second(), 10);
  EXPECT_EQ(progress.eta_seconds(), 0);
}

TEST_F(StageMeterTest, AReusedStageHasNoRates) {
  StageMeter meter = Meter("documents");
  now_ += 3;
  const v1::StageProgress progress = meter.Completed(/*reused=*/true);
  EXPECT_TRUE(progress.complete() && progress.reused());
  EXPECT_EQ(progress.documents_per_second(), 0);
  EXPECT_EQ(progress.eta_seconds(), 0);
}

}  // namespace stage_meter_test
}  // namespace braid

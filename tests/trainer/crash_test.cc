// Kills runs at many points and compares what they resume to. BRAID_KILL_POINTS in the environment
// is the minimum number of points; by default every event occurs once.
#include <algorithm>
#include <cstdlib>
#include <set>
#include <sstream>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/splitmix.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runs/checkpoint.h"
#include "tests/base/status_matchers.h"
#include "tests/trainer/faulty_run.h"
#include "tests/trainer/tiny_run.h"

namespace braid {
namespace crash_test {

namespace fs = std::filesystem;
using testing::Contains;
using testing::HasSubstr;

constexpr int64_t kNumSteps = 7;

size_t LeastPoints() {
  const char* text = std::getenv("BRAID_KILL_POINTS");
  return text == nullptr ? 60 : std::strtoull(text, nullptr, 10);
}

class CrashTest : public testing::Test {
 protected:
  CrashTest() : dataset_(NewDirectory("data")) { WriteTinyDataset(dataset_); }

  // Checkpoints at steps 2 (before upcycling), 4, 6 and 7, of which one is kept.
  v1::RunSpec Spec(int world_size) {
    v1::RunSpec spec = TinySpec(dataset_, kNumSteps);
    spec.set_world_size(world_size);
    spec.mutable_upcycling()->set_dense_fraction(0.4);
    spec.mutable_checkpoint()->set_every_steps(2);
    spec.mutable_checkpoint()->set_keep_last(1);
    return spec;
  }

  // A run without faults.
  struct Undisturbed {
    std::string losses, weights;
    std::map<std::string, int64_t> events;
  };
  static Undisturbed Reference(const v1::RunSpec& spec) {
    const RunDirectory run(NewDirectory("whole"));
    const ChildResult result = TrainInChild(run, spec, {});
    EXPECT_TRUE(result.status.ok()) << result.status;
    return {LossLines(run), NewestWeights(run), result.events};
  }

  // Expects every checkpoint with its final name to be complete.
  static void ExpectNothingHalf(const RunDirectory& run) {
    std::error_code none_yet;
    for (const auto& entry : fs::directory_iterator(run.checkpoints(), none_yet)) {
      if (entry.path().extension() == ".tmp") continue;
      const absl::Status status = VerifyCheckpoint(entry.path());
      EXPECT_TRUE(status.ok()) << status;
    }
  }

  static std::string Describe(const std::vector<Fault>& points) {
    std::string text;
    for (const Fault& point : points) {
      absl::StrAppend(&text, point.event, " #", point.occurrence, " after ", point.after_us,
                      " us, lingers ", point.linger_ms, " ms\n");
    }
    return text;
  }

  // Kills the run at each of `points` in turn, then lets it finish.
  void ExpectSameBits(const v1::RunSpec& spec, const std::vector<Fault>& points,
                      const Undisturbed& whole,
                      const RunDirectory& run = RunDirectory(NewDirectory("run"))) {
    for (const Fault& point : points) {
      SCOPED_TRACE(Describe({point}));
      if (!TrainInChild(run, spec, point).killed) break;
      ++num_killed_;
      ExpectNothingHalf(run);
    }
    const ChildResult last = TrainInChild(run, spec, {});
    ASSERT_TRUE(last.status.ok()) << last.status;
    ASSERT_EQ(LossLines(run), whole.losses) << Describe(points);
    ASSERT_EQ(NewestWeights(run), whole.weights) << Describe(points);
  }

  // Returns each event once, then more occurrences of each until there are enough; every third has
  // ranks that linger.
  static std::vector<Fault> PointsOf(const std::map<std::string, int64_t>& events, size_t least) {
    std::vector<Fault> points;
    for (uint64_t round = 0; points.size() < least || round == 0; ++round) {
      for (const auto& [event, count] : events) {
        const uint64_t random = Mix64(round, points.size());
        points.push_back({.event = event,
                          .occurrence = 1 + static_cast<int64_t>(random % count),
                          .linger_ms = random % 3 == 0 ? 15 : 0,
                          .after_us = 0,
                          .error = 0});
      }
    }
    return points;
  }

  fs::path dataset_;
  size_t num_killed_ = 0;
};

TEST_F(CrashTest, EventsCoverEveryPhase) {
  const auto events = Reference(Spec(2)).events;
  std::vector<std::string> names;
  for (const auto& [event, count] : events) names.push_back(event);
  for (const char* part :
       {"clock", "before sum", "after sum", "write /metrics.jsonl", "rename /heartbeat",
        "mkdir /checkpoints/step-N.A.tmp", "model-00002-of-00002.safetensors.tmp",
        "optimizer-00001-of-00002.safetensors", "fsync /checkpoints/step-N.A.tmp/state.json",
        "pwrite /checkpoints/step-N.A.tmp/manifest.json", "rename /checkpoints/step-N",
        "rename /checkpoints/step-N.old.tmp", "unlinkat /checkpoints/step-N.old.tmp/state.json"}) {
    EXPECT_THAT(names, Contains(HasSubstr(part)));
  }
}

TEST_F(CrashTest, KilledAtAnyEventResumesToTheSameBits) {
  const v1::RunSpec spec = Spec(2);
  const Undisturbed whole = Reference(spec);
  const std::vector<Fault> points = PointsOf(whole.events, LeastPoints());
  for (const Fault& point : points) {
    ExpectSameBits(spec, {point}, whole);
    if (HasFatalFailure()) return;
  }
  // Event counts depend slightly on timing.
  EXPECT_GE(num_killed_, std::max(LeastPoints(), points.size() * 9 / 10));
  RecordProperty("kill_points", static_cast<int>(num_killed_));
}

// Adapters, their moments, the best validation and its checkpoint, at every call that changes a
// checkpoint.
TEST_F(CrashTest, KilledFinetuningResumesToTheSameBits) {
  const fs::path answers = NewDirectory("answers");
  WriteTinySupervised(answers, TinyExamples(24), 3);
  const RunDirectory base(NewDirectory("base"));
  const v1::RunSpec base_spec = TinyDenseSpec(dataset_, 2);
  ASSERT_OK(base.WriteSpec(base_spec));
  ASSERT_TRUE(TrainInChild(base, base_spec, {}).status.ok());
  v1::RunSpec spec = TinyAdapterSpec(answers, base, 6);
  spec.set_world_size(2);
  spec.mutable_checkpoint()->set_every_steps(2);
  spec.mutable_checkpoint()->set_keep_last(1);
  spec.mutable_validation()->mutable_every()->set_steps(3);
  const Undisturbed whole = Reference(spec);
  size_t num_points = 0;
  for (const Fault& point : PointsOf(whole.events, 0)) {
    if (!absl::StrContains(point.event, "/checkpoints/")) continue;
    ++num_points;
    ExpectSameBits(spec, {point}, whole);
    if (HasFatalFailure()) return;
  }
  EXPECT_GE(num_points, 15u);
  EXPECT_GE(num_killed_, num_points * 9 / 10);
}

// The first kill leaves a checkpoint without a manifest; the second interrupts its removal.
TEST_F(CrashTest, KilledWhileItCleansUpResumesToTheSameBits) {
  const v1::RunSpec spec = Spec(2);
  const Undisturbed whole = Reference(spec);
  Fault first, second;
  first.event = "fsync /checkpoints/step-N.A.tmp/manifest.json.tmp";
  first.occurrence = 2;
  for (const char* file :
       {"model-00001-of-00002.safetensors", "optimizer-00002-of-00002.safetensors", "state.json",
        "manifest.json.tmp"}) {
    second.event = absl::StrCat("unlinkat /checkpoints/step-N.A.tmp/", file);
    const RunDirectory run(NewDirectory("run"));
    ASSERT_TRUE(TrainInChild(run, spec, first).killed);
    ASSERT_TRUE(TrainInChild(run, spec, second).killed) << second.event;
    ExpectSameBits(spec, {}, whole, run);
    for (const auto& entry : fs::directory_iterator(run.checkpoints())) {
      EXPECT_NE(entry.path().extension(), ".tmp");
    }
  }
}

// Includes kills during computation and during a resume.
TEST_F(CrashTest, KilledAtAnyTimeAgainAndAgainResumesToTheSameBits) {
  for (int world_size : {1, 3}) {
    const v1::RunSpec spec = Spec(world_size);
    const Undisturbed whole = Reference(spec);
    const size_t killed_before = num_killed_;
    for (size_t i = 0; i < LeastPoints() / 12; ++i) {
      std::vector<Fault> points;
      for (uint64_t attempt = 0; attempt < 3; ++attempt) {
        Fault point;
        point.after_us = 1 + static_cast<int64_t>(Mix64(i, attempt) % 40000);
        points.push_back(point);
      }
      ExpectSameBits(spec, points, whole);
      if (HasFatalFailure()) return;
    }
    EXPECT_GT(num_killed_, killed_before) << world_size;
  }
}

// 4 ranks, then 2 with replicated moments, then 3: batches and losses equal those of one rank.
TEST_F(CrashTest, KilledRunContinuesOnOtherNumbersOfRanks) {
  v1::RunSpec spec = Spec(1);
  const RunDirectory alone(NewDirectory("alone")), run(NewDirectory("run"));
  ASSERT_TRUE(TrainInChild(alone, spec, {}).status.ok());
  Fault fault;
  fault.event = "write /metrics.jsonl";
  for (const auto& [world_size, sharding, lines] :
       {std::tuple(4, v1::ZERO_1, 4), std::tuple(2, v1::REPLICATED, 4),
        std::tuple(3, v1::ZERO_1, 0)}) {
    spec.set_world_size(world_size);
    spec.set_optimizer_sharding(sharding);
    fault.occurrence = lines;
    const ChildResult result = TrainInChild(run, spec, fault);
    EXPECT_EQ(result.killed, lines > 0);
    EXPECT_TRUE(result.status.ok()) << result.status;
  }
  const auto expected = *alone.ReadMetrics(0), got = *run.ReadMetrics(0);
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i].loss(), expected[i].loss(), 1e-5 * expected[i].loss()) << i;
    EXPECT_EQ(got[i].num_tokens(), expected[i].num_tokens()) << i;
  }
}

}  // namespace crash_test
}  // namespace braid

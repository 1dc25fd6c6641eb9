#include "runs/run_directory.h"

#include <fstream>
#include <sstream>

#include "base/atomic_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runs/metrics_log.h"
#include "tests/trainer/tiny_run.h"

namespace braid {
namespace run_directory_test {

using testing::HasSubstr;

v1::StepMetrics Metrics(int64_t step) {
  v1::StepMetrics metrics;
  metrics.set_step(step);
  metrics.set_loss(1.0 / 3 + static_cast<double>(step));
  metrics.add_routing()->add_mean_weights(0.1);
  return metrics;
}

void Append(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::app | std::ios::binary) << text;
}

TEST(RunDirectoryTest, SpecReadsBack) {
  const RunDirectory run(NewDirectory("run") / "deep");
  v1::RunSpec spec;
  spec.set_name("a \"name\"");
  spec.mutable_optimizer()->set_learning_rate(1.0 / 3);
  ASSERT_TRUE(run.WriteSpec(spec).ok());
  EXPECT_EQ(run.ReadSpec()->DebugString(), spec.DebugString());
  EXPECT_EQ(run.ReadSpec()->optimizer().learning_rate(), 1.0 / 3);
}

// A run of an earlier version is resumed with the same meaning: -1 disabled what 0 disables now,
// and zeros were never written.
TEST(RunDirectoryTest, StoredNegativesAreOff) {
  const RunDirectory run(NewDirectory("run"));
  ASSERT_TRUE(WriteFileAtomically(run.spec(),
                                  "optimizer { weight_decay: -1 clip_norm: -1 beta1: 0.9 }\n"
                                  "upcycling { dense_fraction: -1 }\n"
                                  "supervision { max_restarts: -1 }\n"
                                  "weight_check_every_steps: -1\n")
                  .ok());
  const v1::RunSpec spec = *run.ReadSpec();
  EXPECT_EQ(spec.ShortDebugString(),
            "optimizer { beta1: 0.9 weight_decay: 0 clip_norm: 0 } upcycling { dense_fraction: 0 } "
            "weight_check_every_steps: 0 supervision { max_restarts: 0 }");
}

TEST(RunDirectoryTest, AnotherDirectoryIsNotFound) {
  const absl::Status status = RunDirectory(NewDirectory("empty")).ReadSpec().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("is not a run directory"));
}

TEST(RunDirectoryTest, MetricsAreReadFromALine) {
  const RunDirectory run(NewDirectory("run"));
  EXPECT_TRUE(run.ReadMetrics(0)->empty());
  EXPECT_FALSE(run.ReadNewestMetrics().has_value());
  auto log = *MetricsLog::Open(run.metrics(), 0);
  for (int64_t step = 1; step <= 5; ++step) ASSERT_TRUE(log->Append(Metrics(step)).ok());
  EXPECT_EQ(run.ReadMetrics(0)->size(), 5u);
  const auto tail = *run.ReadMetrics(3);
  ASSERT_EQ(tail.size(), 2u);
  EXPECT_EQ(tail[0].DebugString(), Metrics(4).DebugString());
  EXPECT_EQ(tail[0].loss(), 1.0 / 3 + 4);
  EXPECT_TRUE(run.ReadMetrics(5)->empty());
  EXPECT_EQ(run.ReadNewestMetrics()->step(), 5);
}

TEST(RunDirectoryTest, ALineStillBeingWrittenIsLeftForLater) {
  const RunDirectory run(NewDirectory("run"));
  Append(run.metrics(), MetricsLine(Metrics(1)) + "\n" + MetricsLine(Metrics(2)));
  EXPECT_EQ(run.ReadMetrics(0)->size(), 1u);
  EXPECT_EQ(run.ReadNewestMetrics()->step(), 1);
  Append(run.metrics(), "\n");
  EXPECT_EQ(run.ReadMetrics(1)->at(0).step(), 2);
}

TEST(RunDirectoryTest, ADamagedMetricsLineIsNamed) {
  const RunDirectory run(NewDirectory("run"));
  Append(run.metrics(), MetricsLine(Metrics(1)) + "\nrubbish\n");
  const absl::Status status = run.ReadMetrics(0).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("line 2"));
}

TEST(RunDirectoryTest, LostStepsOfASucceededRunAreNamed) {
  const RunDirectory run(NewDirectory("run"));
  Append(run.metrics(), MetricsLine(Metrics(1)) + "\n" + MetricsLine(Metrics(2)));
  ASSERT_TRUE(run.WriteExit({std::string(kSucceeded), "", 2}).ok());
  const absl::Status status = run.ReadMetrics(0).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()),
              testing::AllOf(HasSubstr("metrics.jsonl"), HasSubstr("ends at step 1 of 2")));
  Append(run.metrics(), "\n");
  EXPECT_EQ(run.ReadMetrics(0)->size(), 2u);
}

TEST(RunDirectoryTest, NewestMetricsOfALongFile) {
  const RunDirectory run(NewDirectory("run"));
  std::string text;
  for (int64_t step = 1; step <= 2000; ++step) text += MetricsLine(Metrics(step)) + "\n";
  Append(run.metrics(), text);
  EXPECT_EQ(run.ReadNewestMetrics()->step(), 2000);
  const auto recent = run.ReadRecentMetrics(20);
  ASSERT_EQ(recent.size(), 20u);
  EXPECT_EQ(recent.front().step(), 1981);
  EXPECT_EQ(recent.back().step(), 2000);
  v1::StepMetrics wide = Metrics(2001);
  for (int i = 0; i < 20000; ++i) wide.mutable_routing(0)->add_mean_weights(0.123);
  Append(run.metrics(), MetricsLine(wide) + "\n");
  EXPECT_EQ(run.ReadNewestMetrics()->step(), 2001);
  EXPECT_EQ(run.ReadRecentMetrics(20).back().step(), 2001);
}

TEST(MetricsLogTest, LinesAreFlatJsonWithSnakeCaseNames) {
  const std::string line = MetricsLine(Metrics(3));
  EXPECT_THAT(line, HasSubstr("\"step\":\"3\""));
  EXPECT_THAT(line, HasSubstr("\"gradient_norm\":0"));
  EXPECT_THAT(line, HasSubstr("\"upcycled\":false"));
  EXPECT_EQ(line.find('\n'), std::string::npos);
}

TEST(MetricsLogTest, ReopeningDropsLaterSteps) {
  const RunDirectory run(NewDirectory("run"));
  for (int64_t step = 1; step <= 5; ++step) {
    Append(run.metrics(), MetricsLine(Metrics(step)) + "\n");
  }
  Append(run.metrics(), "{\"step\":\"6");
  auto log = *MetricsLog::Open(run.metrics(), 3);
  ASSERT_TRUE(log->Append(Metrics(4)).ok());
  ASSERT_TRUE(log->Sync().ok());
  EXPECT_EQ(*ReadFile(run.metrics()), MetricsLine(Metrics(1)) + "\n" + MetricsLine(Metrics(2)) +
                                          "\n" + MetricsLine(Metrics(3)) + "\n" +
                                          MetricsLine(Metrics(4)) + "\n");
}

TEST(MetricsLogTest, ReopeningLeavesOutOnlyTheDamagedLinesAndKeepsTheFile) {
  const RunDirectory run(NewDirectory("run"));
  const auto line = [](int64_t step) { return MetricsLine(Metrics(step)) + "\n"; };
  const std::string copy = run.metrics().string() + ".damaged";
  const std::string file = line(1) + line(2) + "{\"step\":\"3\",lo\n" + line(4) + line(5) + line(6);
  Append(run.metrics(), file + "{\"st");
  std::ostringstream warnings;
  ASSERT_TRUE(MetricsLog::Open(run.metrics(), 5, &warnings).ok());
  EXPECT_EQ(*ReadFile(run.metrics()), line(1) + line(2) + line(4) + line(5));
  EXPECT_EQ(*ReadFile(copy), file + "{\"st");
  EXPECT_THAT(warnings.str(), HasSubstr("metrics.jsonl: 1 of the lines up to step 5"));
  EXPECT_THAT(warnings.str(), HasSubstr(copy));
  // Damage after the last step that is kept loses nothing.
  warnings.str("");
  Append(run.metrics(), "rubbish\n" + line(7));
  ASSERT_TRUE(MetricsLog::Open(run.metrics(), 5, &warnings).ok());
  EXPECT_EQ(*ReadFile(run.metrics()), line(1) + line(2) + line(4) + line(5));
  EXPECT_EQ(warnings.str(), "");
  // A loss at the end is one.
  Append(run.metrics(), "rubbish\n");
  ASSERT_TRUE(MetricsLog::Open(run.metrics(), 6, &warnings).ok());
  EXPECT_THAT(warnings.str(), HasSubstr(copy + "-2 keeps"));
}

// Longer than the pieces in which it is read.
TEST(MetricsLogTest, ReopeningALongFileKeepsItsBytes) {
  const RunDirectory run(NewDirectory("run"));
  std::string file;
  int64_t steps = 0;
  while (file.size() < (size_t{3} << 20)) file += MetricsLine(Metrics(++steps)) + "\n";
  Append(run.metrics(), file + MetricsLine(Metrics(steps + 1)));  // cut before the newline
  std::ostringstream warnings;
  ASSERT_TRUE(MetricsLog::Open(run.metrics(), steps + 1, &warnings).ok());
  EXPECT_TRUE(*ReadFile(run.metrics()) == file);
  EXPECT_EQ(warnings.str(), "");
}

TEST(MetricsLogTest, AFileThatCannotBeReadIsNotReplaced) {
  // A link to itself cannot be opened, and the first read of a process's memory fails with EIO. A
  // rename over the links would succeed.
  for (const char* target : {"metrics.jsonl", "/proc/self/mem"}) {
    const RunDirectory run(NewDirectory("run"));
    std::filesystem::create_symlink(target, run.metrics());
    const auto log = MetricsLog::Open(run.metrics(), 3);
    ASSERT_FALSE(log.ok());
    EXPECT_THAT(std::string(log.status().message()), HasSubstr("metrics.jsonl"));
    EXPECT_TRUE(std::filesystem::is_symlink(run.metrics()));
  }
}

TEST(RunDirectoryTest, ExitReadsBack) {
  const RunDirectory run(NewDirectory("run"));
  EXPECT_FALSE(run.ReadExit().has_value());
  ASSERT_TRUE(run.WriteExit({std::string(kFailed), "bad \"thing\"\xff\n", 7}, 3).ok());
  const auto record = run.ReadExit();
  ASSERT_TRUE(record.has_value());
  EXPECT_EQ(record->outcome, "failed");
  EXPECT_THAT(record->error, HasSubstr("bad \"thing\""));
  EXPECT_EQ(record->step, 7);
  ASSERT_TRUE(run.RemoveExit().ok());
  ASSERT_TRUE(run.RemoveExit().ok());
  EXPECT_FALSE(run.ReadExit().has_value());
}

TEST(RunDirectoryTest, HeartbeatsComeByRank) {
  const RunDirectory run(NewDirectory("run"));
  EXPECT_TRUE(run.ReadHeartbeats().empty());
  v1::Heartbeat beat;
  for (int32_t rank : {2, 0, 1}) {
    beat.set_rank(rank);
    beat.set_step(rank + 10);
    ASSERT_TRUE(run.WriteHeartbeat(beat).ok());
  }
  Append(run.heartbeats() / "rank-3.json", "{");
  const auto beats = run.ReadHeartbeats();
  ASSERT_EQ(beats.size(), 3u);
  EXPECT_EQ(beats[0].rank(), 0);
  EXPECT_EQ(beats[2].step(), 12);
}

}  // namespace run_directory_test
}  // namespace braid

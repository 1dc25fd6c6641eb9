// Jobs that are killed at any point resume to the same bytes. With BRAID_KILL_EVERYWHERE in the
// environment they are killed at every call that changes a file, by default at 42 of these calls.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "pipeline/jobs/job_runner.h"
#include "tests/pipeline/jobs/faulty_job.h"
#include "tests/pipeline/jobs/generated_corpus.h"
#include "tests/pipeline/jobs/uninterrupted_job_test.h"

namespace braid {
namespace killed_job_test {

namespace fs = std::filesystem;
using testing::Contains;
using testing::HasSubstr;
using testing::SizeIs;

class KilledJobTest : public UninterruptedJobTest {
 protected:
  // Kills the job at each of `faults` in succession, then lets it finish. Each attempt may repeat
  // at most one resume point of an earlier one: at most one chunk is processed twice.
  void ExpectSameBytes(const std::vector<JobFault>& faults) {
    const fs::path home = NewDirectory();
    std::set<std::string> saved;
    bool finished = false;
    for (size_t i = 0; i <= faults.size() && !finished; ++i) {
      const JobFault fault = i < faults.size() ? faults[i] : JobFault{};
      const JobOutcome outcome = RunJobInChild(home, SmallSpec(*corpus_), kChunkBytes, fault);
      num_killed_ += outcome.killed ? 1 : 0;
      finished = !outcome.killed;
      ASSERT_TRUE(outcome.status.ok()) << outcome.status;
      const auto redone = std::ranges::count_if(
          outcome.points, [&](const std::string& point) { return !saved.insert(point).second; });
      ASSERT_LE(redone, 1) << "attempt " << i;
    }
    ASSERT_TRUE(finished);
    ASSERT_TRUE(StoreContents(home) == *contents_);
    fs::remove_all(home);
  }

  static int64_t num_calls() { return static_cast<int64_t>(whole_->calls.size()); }

  int num_killed_ = 0;
};

TEST_F(KilledJobTest, CallsCoverEveryPhase) {
  for (const char* part :
       {"pwrite ingest.tmp/texts.bin.tmp", "fsync ingest.tmp/texts.bin.tmp",
        "rename ingest.tmp/resume.json", "rename ingest.tmp/ids.bin",
        "rename tokenize.tmp/tokenizer.model", "fsync tokenize.tmp/tokens.lengths.tmp",
        "rename embed.tmp/frequencies-", "fsync embed.tmp/embeddings.npy.tmp", "rename neighbors",
        "rename pack.tmp/resume.json", "rename pack.tmp/manifest.json", "fsync pack.tmp/provenance",
        "mkdir order.tmp"}) {
    EXPECT_THAT(whole_->calls, Contains(HasSubstr(part)));
  }
  std::map<std::string, int> points;
  for (const std::string& point : whole_->points) ++points[point.substr(0, point.rfind(' '))];
  for (const char* pass : {"ingest ", "tokenize ", "embed ", "embed vectors", "pack "}) {
    EXPECT_GE(points[pass], 5) << pass;
  }
}

// Returns the same number of faults for each stage, spread over its calls.
std::vector<int64_t> PointsOf(const std::vector<std::string>& calls, size_t per_stage) {
  std::map<std::string, std::vector<int64_t>> by_stage;
  for (size_t i = 0; i < calls.size(); ++i) {
    by_stage[StageOfCall(calls[i])].push_back(static_cast<int64_t>(i) + 1);
  }
  std::vector<int64_t> points;
  for (const auto& [stage, own] : by_stage) {
    const size_t count = std::min(per_stage, own.size());
    for (size_t i = 0; i < count; ++i) points.push_back(own[i * own.size() / count]);
  }
  return points;
}

TEST_F(KilledJobTest, ReachesTheSameBytesFromEveryStage) {
  const bool everywhere = std::getenv("BRAID_KILL_EVERYWHERE") != nullptr;
  const auto points = PointsOf(whole_->calls, everywhere ? whole_->calls.size() : 6);
  for (const int64_t call : points) {
    SCOPED_TRACE(whole_->calls[static_cast<size_t>(call) - 1] + ", call " + std::to_string(call));
    ExpectSameBytes({{.call = call}});
    if (HasFatalFailure()) return;
  }
  EXPECT_GE(num_killed_, 36);
  EXPECT_GE(num_killed_, static_cast<int>(points.size()) * 9 / 10);
  RecordProperty("kill_points", num_killed_);
}

// Kills the job also while it loads its resume point, before it makes any progress.
TEST_F(KilledJobTest, ReachesTheSameBytesWhenKilledRepeatedly) {
  std::mt19937 random(5);
  for (const int64_t most_calls : {40, 200}) {
    std::vector<JobFault> faults;
    for (int i = 0; i < 30; ++i) {
      faults.push_back({.call = 1 + static_cast<int64_t>(random() % most_calls)});
    }
    ExpectSameBytes(faults);
  }
  EXPECT_GE(num_killed_, 30);
}

// Kills the job also between system calls, while it computes.
TEST_F(KilledJobTest, ReachesTheSameBytesWhenKilledAtAnyTime) {
  std::mt19937 random(6);
  for (int i = 0; i < 3; ++i) {
    std::vector<JobFault> faults;
    for (int attempt = 0; attempt < 4; ++attempt) {
      faults.push_back({.after_us = 1 + static_cast<int64_t>(random() % 150000)});
    }
    ExpectSameBytes(faults);
  }
  EXPECT_GE(num_killed_, 1) << "every job ended before it was to be killed";
}

}  // namespace killed_job_test
}  // namespace braid

#include "pipeline/store/stage_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "formats/manifest.h"
#include "pipeline/store/resume_point.h"
#include "pipeline/store/stage_key.h"
#include "tests/pipeline/jobs/generated_corpus.h"

namespace braid {
namespace stage_store_test {

const std::string kKey = StageKey("double", 1).Add("x", 1).Hex();

class StageStoreTest : public testing::Test {
 protected:
  absl::StatusOr<StoredStage> Produce(const std::string& key = kKey) {
    return store_.Produce("double", key, [&](StageWriter& writer) {
      ++builds_;
      return writer.AddText("answer.txt", "42\n", 1);
    });
  }
  std::filesystem::path Answer() const { return store_.DirectoryOf("double", kKey) / "answer.txt"; }

  const std::filesystem::path root_ = NewDirectory();
  StageStore store_{root_};
  std::atomic<int> builds_ = 0;
};

TEST_F(StageStoreTest, BuildsOnceAndReusesAfterwards) {
  const auto first = Produce();
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_FALSE(first->reused);
  const auto second = Produce();
  ASSERT_TRUE(second.ok());
  EXPECT_TRUE(second->reused);
  EXPECT_EQ(builds_, 1);
  EXPECT_EQ(second->manifest, first->manifest);
  EXPECT_EQ(*ReadFile(Answer()), "42\n");
}

TEST_F(StageStoreTest, BuildsAgainWhenAFileIsDamaged) {
  ASSERT_TRUE(Produce().ok());
  std::ofstream(Answer()) << "43\n";
  ASSERT_TRUE(Produce().ok());
  EXPECT_EQ(builds_, 2);
  EXPECT_EQ(*ReadFile(Answer()), "42\n");
}

TEST_F(StageStoreTest, BuildsAgainWhenAFileOrTheManifestIsMissing) {
  ASSERT_TRUE(Produce().ok());
  std::filesystem::remove(Answer());
  ASSERT_TRUE(Produce().ok());
  std::filesystem::remove(store_.DirectoryOf("double", kKey) / kManifestName);
  ASSERT_TRUE(Produce().ok());
  EXPECT_EQ(builds_, 3);
}

TEST_F(StageStoreTest, BuildsAgainWhenOnlyTheFirstHalfOfTheKeyAgrees) {
  const std::string other = kKey.substr(0, 16) + std::string(16, '0');
  ASSERT_TRUE(Produce().ok());
  ASSERT_TRUE(Produce(other).ok());
  EXPECT_EQ(builds_, 2);
}

TEST_F(StageStoreTest, KeepsAnOutputThatIsTemporarilyUnreadable) {
  ASSERT_TRUE(Produce().ok());
  rlimit limit;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none = {.rlim_cur = 0, .rlim_max = limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const absl::Status status = Produce().status();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_TRUE(Produce()->reused);
  EXPECT_EQ(builds_, 1);
}

TEST_F(StageStoreTest, ClearsTheFilesOfAKilledProcess) {
  const std::filesystem::path temporary = store_.DirectoryOf("double", kKey).string() + ".tmp";
  std::filesystem::create_directories(temporary);
  std::ofstream(temporary / "half") << "written";
  ASSERT_TRUE(Produce().ok());
  EXPECT_FALSE(std::filesystem::exists(temporary));
  EXPECT_FALSE(std::filesystem::exists(store_.DirectoryOf("double", kKey) / "half"));
}

TEST_F(StageStoreTest, LeavesNothingAfterAnError) {
  const auto failed = store_.Produce("double", kKey, [](StageWriter& writer) {
    writer.AddText("answer.txt", "4", 1).IgnoreError();
    return absl::DataLossError("broken");
  });
  EXPECT_EQ(failed.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(std::filesystem::is_empty(root_));
}

TEST_F(StageStoreTest, GivesConcurrentCallersOneBuild) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { EXPECT_TRUE(Produce().ok()); });
  threads.clear();
  EXPECT_EQ(builds_, 1);
}

TEST_F(StageStoreTest, StopsWhileItWaitsForAnotherCaller) {
  std::promise<void> started, finish;
  std::jthread builder([&] {
    const auto built = store_.Produce("double", kKey, [&](StageWriter& writer) {
      started.set_value();
      finish.get_future().wait();
      return writer.AddText("answer.txt", "42\n", 1);
    });
    EXPECT_TRUE(built.ok());
  });
  started.get_future().wait();
  const auto waiting = store_.Produce(
      "double", kKey, [](StageWriter&) { return absl::InternalError("built twice"); },
      [] { return true; });
  EXPECT_EQ(waiting.status().code(), absl::StatusCode::kCancelled);
  finish.set_value();
  builder.join();
  EXPECT_TRUE(Produce().ok());
  EXPECT_EQ(builds_, 0) << "the first output is reused";
}

// A stage of ten chunks, one line each, that can be interrupted before any of them.
class ResumedStageTest : public testing::Test {
 protected:
  static constexpr int kChunks = 10;

  absl::Status Build(StageWriter& stage, int stop_before, const absl::Status& error) {
    const ResumePoint& left = stage.resume_point();
    if (stage.resumed()) started_at_.push_back(static_cast<int>(left.position));
    if (!stage.Has("first.txt")) {
      RETURN_IF_ERROR(stage.AddText("first.txt", "done once", 1));
    }
    ASSIGN_OR_RETURN(auto file, AtomicFile::Resume(stage.directory() / "lines", left.files));
    for (int64_t i = left.position; i < kChunks; ++i) {
      if (i == stop_before) return error;
      ++num_chunks_;
      RETURN_IF_ERROR(file->Append("line " + std::to_string(i) + "\n"));
      RETURN_IF_ERROR(SavePoint(i + 1, file.get(), &stage));
    }
    ASSIGN_OR_RETURN(const FileSummary summary, file->Commit());
    stage.Add(summary, kChunks);
    return absl::OkStatus();
  }

  absl::Status SavePoint(int64_t position, AtomicFile* file, StageWriter* stage) {
    ResumePoint point{.position = position};
    point.state["square"] = position * position;
    const std::string last = "scratch-" + std::to_string(position - 1);
    const std::string name = "scratch-" + std::to_string(position);
    RETURN_IF_ERROR(WriteFileAtomically(stage->directory() / name, name));
    ASSIGN_OR_RETURN(const FileSummary summary, SummarizeFile(stage->directory() / name));
    stage->AddScratch(summary);
    if (stage->Has(last)) stage->DropScratch(last);
    RETURN_IF_ERROR(file->Sync(&point.files));
    return stage->SaveResumePoint(std::move(point));
  }

  absl::Status Run(int stop_before = -1, const absl::Status& error = absl::CancelledError("")) {
    StageStore store(root_);
    return store
        .Produce("lines", kKey,
                 [&](StageWriter& stage) { return Build(stage, stop_before, error); })
        .status();
  }

  void ExpectWhole() {
    const auto manifest = LoadVerifiedManifest(Final());
    ASSERT_TRUE(manifest.ok()) << manifest.status();
    EXPECT_EQ(manifest->files.size(), 2u);
    EXPECT_EQ(manifest->files[0].name, "first.txt");
    EXPECT_EQ(*ReadFile(Final() / "lines"),
              "line 0\nline 1\nline 2\nline 3\nline 4\nline 5\nline 6\nline 7\nline 8\nline 9\n");
    const std::filesystem::directory_iterator files(Final());
    EXPECT_EQ(std::distance(begin(files), end(files)), 3) << "with the manifest";
    EXPECT_FALSE(std::filesystem::exists(Temporary()));
  }

  std::filesystem::path Final() const { return StageStore(root_).DirectoryOf("lines", kKey); }
  std::filesystem::path Temporary() const { return Final().string() + ".tmp"; }

  const std::filesystem::path root_ = NewDirectory();
  int num_chunks_ = 0;
  std::vector<int> started_at_;  // by resumed attempts
};

TEST_F(ResumedStageTest, ContinuesAfterTheLastResumePoint) {
  for (const int stop : {3, 4, 4, 9}) EXPECT_TRUE(absl::IsCancelled(Run(stop)));
  EXPECT_TRUE(Run().ok());
  EXPECT_EQ(num_chunks_, kChunks);
  EXPECT_THAT(started_at_, testing::ElementsAre(3, 4, 4, 9));
  ExpectWhole();
}

TEST_F(ResumedStageTest, StartsAgainFromDamage) {
  const auto damage = [&](const std::string& name) {
    const std::filesystem::path path = Temporary() / name;
    std::string bytes = *ReadFile(path);
    bytes[bytes.size() / 2] ^= 1;
    std::ofstream(path) << bytes;
  };
  for (const char* name : {"lines.tmp", "first.txt", "scratch-5", kResumePointName}) {
    num_chunks_ = 0;
    EXPECT_TRUE(absl::IsCancelled(Run(5)));
    damage(name);
    EXPECT_TRUE(Run().ok());
    EXPECT_EQ(num_chunks_, 5 + kChunks) << name;
    ExpectWhole();
    std::filesystem::remove_all(Final());
  }
}

TEST_F(ResumedStageTest, RefusesThePointOfAnotherKeyOrStage) {
  EXPECT_TRUE(absl::IsCancelled(Run(5)));
  auto record = ResumeRecord::Load(Temporary());
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->point.state["square"], 25);
  StageWriter other_stage(Temporary(), "words", kKey);
  EXPECT_TRUE(absl::IsDataLoss(other_stage.LoadResumePoint()));
  const std::string other_key = kKey.substr(0, 16) + std::string(16, '0');
  StageWriter other(Temporary(), "lines", other_key);
  const absl::Status status = other.LoadResumePoint();
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr(other_key));
}

TEST_F(ResumedStageTest, NumbersTheResumePointsOfAllAttempts) {
  for (const int stop : {3, 3, 5}) {
    EXPECT_TRUE(absl::IsCancelled(Run(stop)));
    StageWriter writer(Temporary(), "lines", kKey);
    ASSERT_TRUE(writer.LoadResumePoint().ok());
    EXPECT_EQ(writer.num_resume_points(), stop) << "one after each line";
  }
}

TEST_F(ResumedStageTest, ReadsTheUnnumberedPointOfAnEarlierVersion) {
  EXPECT_TRUE(absl::IsCancelled(Run(3)));
  auto record = ResumeRecord::Load(Temporary());
  ASSERT_TRUE(record.ok()) << record.status();
  record->number = 0;
  ASSERT_TRUE(record->Save(Temporary()).ok());
  EXPECT_EQ(ReadFile(Temporary() / kResumePointName)->find("\"number\""), std::string::npos);
  StageWriter writer(Temporary(), "lines", kKey);
  ASSERT_TRUE(writer.LoadResumePoint().ok());
  EXPECT_EQ(writer.num_resume_points(), 0);
  EXPECT_EQ(writer.resume_point().position, 3);
}

TEST_F(ResumedStageTest, KeepsItsResumePointAfterRecoverableErrors) {
  EXPECT_FALSE(Run(4, absl::ResourceExhaustedError("no space")).ok());
  EXPECT_FALSE(Run(6, absl::UnavailableError("no answer")).ok());
  EXPECT_TRUE(std::filesystem::exists(Temporary() / kResumePointName));
  EXPECT_FALSE(Run(7, absl::FailedPreconditionError("input changed")).ok());
  EXPECT_TRUE(std::filesystem::is_empty(root_));
}

TEST_F(ResumedStageTest, OnlyRenamesACompleteOutput) {
  ASSERT_TRUE(Run().ok());
  std::filesystem::rename(Final(), Temporary());
  std::ofstream(Temporary() / "left.tmp") << "by a killed process";
  EXPECT_TRUE(Run().ok());
  EXPECT_EQ(num_chunks_, kChunks);
  ExpectWhole();
}

TEST(StageKeyTest, DependsOnEveryFieldItsNameTypeAndPlace) {
  std::set<std::string> keys = {
      StageKey("a", 1).Hex(),
      StageKey("b", 1).Hex(),
      StageKey("a", 2).Hex(),
      StageKey("a", 1).Add("x", 1).Hex(),
      StageKey("a", 1).Add("y", 1).Hex(),
      StageKey("a", 1).Add("x", 1.0).Hex(),
      StageKey("a", 1).Add("x", "1").Hex(),
      StageKey("a", 1).Add("x", true).Hex(),
      StageKey("a", 1).Add("x", "1").Add("y", "2").Hex(),
      StageKey("a", 1).Add("y", "2").Add("x", "1").Hex(),
      StageKey("a", 1).Add("x", "1y").Add("", "2").Hex(),
  };
  EXPECT_EQ(keys.size(), 11u);
  for (const std::string& key : keys) EXPECT_EQ(key.size(), 32u);
}

TEST(StageKeyTest, StaysTheSameFromBuildToBuild) {
  EXPECT_EQ(StageKey("ingest", 1).Add("k", 20).Add("c", 0.9).Add("s", uint64_t{7}).Hex(),
            "1ff9fe05c7bf31e14c1672a09d29a6e6");
}

}  // namespace stage_store_test
}  // namespace braid

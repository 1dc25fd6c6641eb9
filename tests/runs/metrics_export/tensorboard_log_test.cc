#include "runs/metrics_export/tensorboard_log.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <sstream>
#include <vector>

#include "tests/base/scratch_directory.h"
#include "tests/runs/metrics_export/random_metrics.h"

namespace braid {
namespace tensorboard_log_test {

using testing::HasSubstr;

// Limits the size of files during its lifetime: the next write is cut short, later ones fail.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(uintmax_t bytes) : handler_(signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit = {bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_ = {};
  sighandler_t handler_;
};

class TensorBoardLogTest : public testing::Test {
 protected:
  TensorBoardLogTest() { spec_.set_name("toy"); }

  // Returns the steps of the finished run, and of a trainer that starts at `first`.
  std::vector<v1::StepMetrics> Train(int64_t first, int64_t last) {
    TensorBoardLog log(directory_, spec_, &warnings_);
    std::vector<v1::StepMetrics> steps;
    for (int64_t step = first; step <= last; ++step) {
      steps.push_back(RandomMetrics(step, &random_));
      log.Append(steps.back());
    }
    return steps;
  }
  void Keep(std::vector<v1::StepMetrics> steps, int64_t up_to = INT64_MAX) {
    for (const v1::StepMetrics& step : steps) {
      if (step.step() <= up_to) lines_ += JsonLine(step);
    }
  }
  std::vector<std::filesystem::path> Files() const {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
      files.push_back(entry.path());
    }
    std::ranges::sort(files);
    return files;
  }
  void ExpectEachStepOnce() {
    PutFile(scratch_ / "metrics.jsonl", lines_);
    EXPECT_EQ(ReadWithoutUs("events", directory_, scratch_ / "metrics.jsonl"), 0);
  }

  ScratchDirectory scratch_;
  const std::filesystem::path directory_ = scratch_ / "tensorboard";
  v1::RunSpec spec_;
  std::mt19937_64 random_{1};
  std::ostringstream warnings_;
  std::string lines_;
};

TEST_F(TensorBoardLogTest, HasEveryStep) {
  Keep(Train(1, 20));
  ExpectEachStepOnce();
  EXPECT_EQ(Files().size(), 1u);
  EXPECT_EQ(warnings_.str(), "");
}

TEST_F(TensorBoardLogTest, NothingIsWrittenBeforeTheFirstStep) {
  Train(1, 0);
  EXPECT_FALSE(std::filesystem::exists(directory_));
}

TEST_F(TensorBoardLogTest, ResumedRunVoidsTheStepsThatItTrainsAgain) {
  Keep(Train(1, 20), 15);
  Keep(Train(16, 30), 25);
  Keep(Train(26, 30));
  EXPECT_EQ(Files().size(), 3u);
  ExpectEachStepOnce();
}

TEST_F(TensorBoardLogTest, RunWithoutCheckpointStartsOver) {
  Train(1, 4);
  Keep(Train(1, 6));
  ExpectEachStepOnce();
}

TEST_F(TensorBoardLogTest, EventCutShortByACrashDoesNoHarm) {
  Keep(Train(1, 7), 5);
  std::filesystem::resize_file(Files()[0], std::filesystem::file_size(Files()[0]) - 3);
  Keep(Train(6, 9));
  ExpectEachStepOnce();
}

TEST_F(TensorBoardLogTest, FullDiskLeavesStepsOutAndWarnsOnce) {
  TensorBoardLog log(directory_, spec_, &warnings_);
  const auto train = [&](int64_t first, int64_t last) {
    std::vector<v1::StepMetrics> steps;
    for (int64_t step = first; step <= last; ++step) {
      steps.push_back(RandomMetrics(step, &random_));
      log.Append(steps.back());
    }
    return steps;
  };
  Keep(train(1, 5));
  {
    const FileSizeLimit full(std::filesystem::file_size(Files()[0]) + 100);
    train(6, 8);
  }
  Keep(train(9, 12));
  ExpectEachStepOnce();
  EXPECT_THAT(warnings_.str(), HasSubstr("step 6 "));
  EXPECT_EQ(std::ranges::count(warnings_.str(), '\n'), 1) << warnings_.str();
}

TEST_F(TensorBoardLogTest, DiskThatIsFullAtFirstGetsAWholeFileLater) {
  TensorBoardLog log(directory_, spec_, &warnings_);
  {
    const FileSizeLimit full(50);
    log.Append(RandomMetrics(1, &random_));
  }
  const v1::StepMetrics second = RandomMetrics(2, &random_);
  log.Append(second);
  Keep({second});
  ExpectEachStepOnce();
  EXPECT_EQ(Files().size(), 1u);
}

TEST_F(TensorBoardLogTest, DirectoryThatCannotBeMadeIsAWarning) {
  PutFile(directory_, "in the way");
  Train(1, 3);
  EXPECT_THAT(warnings_.str(), HasSubstr(directory_.string()));
  EXPECT_THAT(warnings_.str(), HasSubstr("--tensorboard"));
}

}  // namespace tensorboard_log_test
}  // namespace braid

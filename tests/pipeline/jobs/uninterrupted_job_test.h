// The fixture of tests that interrupt jobs: the output of an uninterrupted job to compare with.
#ifndef BRAID_TESTS_PIPELINE_JOBS_UNINTERRUPTED_JOB_TEST_H_
#define BRAID_TESTS_PIPELINE_JOBS_UNINTERRUPTED_JOB_TEST_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "tests/pipeline/jobs/faulty_job.h"
#include "tests/pipeline/jobs/generated_corpus.h"

namespace braid {

inline constexpr int64_t kChunkBytes = 6000;  // a dozen chunks a stage

class UninterruptedJobTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    corpus_ = new std::filesystem::path(NewDirectory() / "tiny.jsonl");
    WriteCorpus(*corpus_);
    // Some tests read it as another user.
    std::filesystem::permissions(corpus_->parent_path(), std::filesystem::perms::all);
    const std::filesystem::path home = NewDirectory();
    whole_ = new JobOutcome(RunJobInChild(home, SmallSpec(*corpus_), kChunkBytes, {}));
    contents_ = new std::map<std::string, std::string>(StoreContents(home));
  }
  static void TearDownTestSuite() {
    delete contents_;
    delete whole_;
    delete corpus_;
  }
  void SetUp() override { ASSERT_TRUE(whole_->status.ok()) << whole_->status; }

  static inline std::filesystem::path* corpus_ = nullptr;
  static inline JobOutcome* whole_ = nullptr;
  static inline std::map<std::string, std::string>* contents_ = nullptr;
};

}  // namespace braid

#endif  // BRAID_TESTS_PIPELINE_JOBS_UNINTERRUPTED_JOB_TEST_H_

// A store in which jobs are run, and a job of the generated corpus that is finished.
#ifndef BRAID_TESTS_PIPELINE_JOBS_FINISHED_JOB_H_
#define BRAID_TESTS_PIPELINE_JOBS_FINISHED_JOB_H_

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "braid/v1/pipeline.pb.h"
#include "formats/manifest.h"
#include "pipeline/store/stage_store.h"
#include "tests/pipeline/jobs/generated_corpus.h"

namespace braid {

// One home in which jobs are run one after the other.
class Home {
 public:
  explicit Home(std::filesystem::path root = NewDirectory(), const StageOptions& options = {});
  // With a copy of everything that `other` has.
  Home(const Home& other, const StageOptions& options = {});

  absl::StatusOr<v1::JobResult> Run(const v1::CorpusSpec& spec);

  // Makes later runs stop at their report of this number, from 1; 0: never.
  void StopAtReport(int report) { stop_at_ = report; }
  // Stages of the last run that were made, and that were there.
  const std::vector<std::string>& made() const { return made_; }
  const std::vector<std::string>& reused() const { return reused_; }

  // The directory of a stage of which the store has one output.
  std::filesystem::path StageDirectory(const std::string& stage) const;
  // Manifests of everything in the store, by directory name.
  std::map<std::string, std::vector<ManifestEntry>> Contents() const;

 private:
  const std::filesystem::path root_;
  StageStore store_;
  int stop_at_ = 0;
  int reports_ = 0;
  std::vector<std::string> made_, reused_;
};

// One corpus and one finished job serve all tests that only look.
class FinishedJobTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(job().result.ok()) << job().result.status(); }
  static const std::filesystem::path& Corpus() { return job().corpus; }
  static v1::CorpusSpec Spec() { return SmallSpec(Corpus()); }
  static Home& finished_home() { return job().home; }
  static const v1::JobResult& Result() { return *job().result; }
  static std::filesystem::path Dataset() { return Result().dataset_dir(); }
  static nlohmann::json DatasetJson();
  static std::vector<uint32_t> Numbers(const std::string& stage, const std::string& file);

 private:
  struct Job {
    Job();
    std::filesystem::path corpus;
    Home home;
    absl::StatusOr<v1::JobResult> result;
  };
  static Job& job();
};

}  // namespace braid

#endif  // BRAID_TESTS_PIPELINE_JOBS_FINISHED_JOB_H_

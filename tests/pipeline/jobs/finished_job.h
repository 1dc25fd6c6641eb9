// A home directory in which jobs run, and a finished job of the generated corpus.
#ifndef BRAID_TESTS_PIPELINE_JOBS_FINISHED_JOB_H_
#define BRAID_TESTS_PIPELINE_JOBS_FINISHED_JOB_H_

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "braid/v1/corpus.pb.h"
#include "braid/v1/job.pb.h"
#include "formats/manifest.h"
#include "pipeline/store/stage_store.h"
#include "tests/pipeline/jobs/generated_corpus.h"

namespace braid {

// A home directory in which jobs run one after the other.
class Home {
 public:
  explicit Home(std::filesystem::path root = NewDirectory(), const StageOptions& options = {});
  // Starts with a copy of the store of `other`.
  Home(const Home& other, const StageOptions& options = {});

  absl::StatusOr<v1::JobResult> Run(const v1::CorpusSpec& spec);

  // Stops later runs at their progress report of this number, counted from 1; 0: never.
  void StopAtReport(int report) { stop_at_ = report; }
  // The stages that the last run built, and those that it reused.
  const std::vector<std::string>& made() const { return made_; }
  const std::vector<std::string>& reused() const { return reused_; }

  // Returns the directory of the only output of a stage.
  std::filesystem::path StageDirectory(const std::string& stage) const;
  // Returns the manifests of all stage outputs, by directory name.
  std::map<std::string, std::vector<ManifestEntry>> Contents() const;

 private:
  const std::filesystem::path root_;
  StageStore store_;
  int stop_at_ = 0;
  int reports_ = 0;
  std::vector<std::string> made_, reused_;
};

// A fixture with one corpus and one finished job, which the tests only read.
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

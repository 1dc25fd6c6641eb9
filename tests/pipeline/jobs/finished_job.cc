#include "tests/pipeline/jobs/finished_job.h"

#include <utility>

#include "base/atomic_file.h"
#include "formats/npy.h"
#include "pipeline/corpus/corpus_spec.h"
#include "pipeline/jobs/job_runner.h"

namespace braid {

namespace fs = std::filesystem;

Home::Home(fs::path root, const StageOptions& options)
    : root_(std::move(root)), store_(root_ / "store", options) {}

Home::Home(const Home& other, const StageOptions& options) : Home(NewDirectory(), options) {
  fs::copy(other.root_, root_, fs::copy_options::recursive);
}

absl::StatusOr<v1::JobResult> Home::Run(const v1::CorpusSpec& spec) {
  made_.clear();
  reused_.clear();
  const auto resolved = ResolveCorpusSpec(spec);
  EXPECT_TRUE(resolved.ok()) << resolved.status();
  JobHooks hooks;
  hooks.report = [&](const v1::StageProgress& progress) {
    ++reports_;
    if (progress.complete()) (progress.reused() ? reused_ : made_).push_back(progress.stage());
  };
  hooks.stop = [&] { return stop_at_ > 0 && reports_ == stop_at_; };
  reports_ = 0;
  return RunJob(*resolved, &store_, hooks);
}

fs::path Home::StageDirectory(const std::string& stage) const {
  for (const auto& entry : fs::directory_iterator(root_ / "store")) {
    const std::string name = entry.path().filename().string();
    if (name.rfind(stage + "-", 0) == 0) return entry.path();
  }
  ADD_FAILURE() << "no output of " << stage;
  return {};
}

std::map<std::string, std::vector<ManifestEntry>> Home::Contents() const {
  std::map<std::string, std::vector<ManifestEntry>> contents;
  for (const auto& entry : fs::directory_iterator(root_ / "store")) {
    const auto manifest = LoadVerifiedManifest(entry.path());
    EXPECT_TRUE(manifest.ok()) << manifest.status();
    contents[entry.path().filename().string()] = manifest->files;
  }
  return contents;
}

FinishedJobTest::Job::Job() : corpus(NewDirectory() / "tiny.jsonl") {
  WriteCorpus(corpus);
  result = home.Run(SmallSpec(corpus));
}

FinishedJobTest::Job& FinishedJobTest::job() {
  static Job job;
  return job;
}

nlohmann::json FinishedJobTest::DatasetJson() {
  return nlohmann::json::parse(*ReadFile(Dataset() / "dataset.json"));
}

std::vector<uint32_t> FinishedJobTest::Numbers(const std::string& stage, const std::string& file) {
  const auto array = NpyArray<uint32_t>::Open(finished_home().StageDirectory(stage) / file);
  EXPECT_TRUE(array.ok()) << array.status();
  return {array->values().begin(), array->values().end()};
}

}  // namespace braid

// A dense base model and supervised datasets to tune it on.
#ifndef BRAID_TESTS_TRAINER_FINETUNING_FIXTURE_H_
#define BRAID_TESTS_TRAINER_FINETUNING_FIXTURE_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "runs/checkpoint_directory.h"
#include "tests/base/status_matchers.h"
#include "tests/trainer/tiny_run.h"

namespace braid {

inline std::filesystem::path NewestOf(const RunDirectory& run) {
  std::vector<std::string> skipped;
  return **NewestGoodCheckpoint(run.checkpoints(), &skipped);
}

class FinetuningFixture : public testing::Test {
 protected:
  static constexpr int64_t kExamples = 36;

  FinetuningFixture()
      : text_(NewDirectory("text")),
        packed_(NewDirectory("packed")),
        alone_(NewDirectory("alone")) {
    WriteTinyDataset(text_);
    WriteTinySupervised(packed_, examples_, 3);
    WriteTinySupervised(alone_, examples_, 1);
  }

  const RunDirectory& base() {
    static const RunDirectory base = TinyBase(text_);
    return base;
  }

  RunDirectory Trained(const v1::RunSpec& spec) {
    const RunDirectory run(NewDirectory("run"));
    EXPECT_OK(run.WriteSpec(spec));
    EXPECT_OK(TrainAlone(run, spec));
    return run;
  }

  const std::vector<TinyExample> examples_ = TinyExamples(kExamples);
  // Datasets: text; the examples, three a sequence; and one a sequence.
  const std::filesystem::path text_, packed_, alone_;
};

}  // namespace braid

#endif  // BRAID_TESTS_TRAINER_FINETUNING_FIXTURE_H_

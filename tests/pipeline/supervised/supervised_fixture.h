// Records, and the plans and datasets that are made of them with a tiny tokenizer.
#ifndef BRAID_TESTS_PIPELINE_SUPERVISED_SUPERVISED_FIXTURE_H_
#define BRAID_TESTS_PIPELINE_SUPERVISED_SUPERVISED_FIXTURE_H_

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pipeline/supervised/supervised_dataset.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"
#include "tests/pipeline/supervised/tiny_tokenizers.h"

namespace braid {

class SupervisedFixture : public testing::Test {
 protected:
  SupervisedSettings Settings() {
    SupervisedSettings settings;
    settings.encoding = {.chat = FindChatTemplate("plain").value(),
                         .max_tokens = 129,
                         .start_id = tokenizer_->eos_id()};
    settings.sequence_length = 128;
    settings.validation_share = .1;
    return settings;
  }

  // Records with prompts of different lengths.
  static RecordSet Records(int count, const std::string& file = "data.jsonl") {
    RecordSet set;
    for (int i = 0; i < count; ++i) {
      std::string prompt = absl::StrCat("add the number ", i);
      for (int j = 0; j < i % 7; ++j) prompt += " and the answer";
      set.records.push_back(
          {.place = absl::StrCat(file, ":", i + 1),
           .turns = {{ChatRole::kUser, prompt}, {ChatRole::kAssistant, absl::StrCat(i * 3)}}});
    }
    set.sources.push_back({file, "alpaca", count});
    return set;
  }

  // Records whose answers are labels.
  static RecordSet Labeled(const std::vector<std::string>& labels,
                           const std::string& file = "data.jsonl") {
    RecordSet set;
    for (size_t i = 0; i < labels.size(); ++i) {
      set.records.push_back({.place = absl::StrCat(file, ":", i + 1),
                             .turns = {{ChatRole::kUser, absl::StrCat("is it ", i, "?")},
                                       {ChatRole::kAssistant, " " + labels[i]}}});
    }
    set.sources.push_back({file, "prompt", std::ssize(labels)});
    return set;
  }

  absl::StatusOr<SupervisedPlan> Plan(const RecordSet& training, const SupervisedSettings& settings,
                                      const RecordSet* validation = nullptr) {
    return PlanSupervised(training, validation, *tokenizer_, settings);
  }

  // Writes the dataset and returns its directory.
  std::filesystem::path Write(const SupervisedPlan& plan, const RecordSet& records,
                              const SupervisedSettings& settings) {
    const SupervisedDataset dataset = {"tiny",   plan,        records.sources,
                                       settings, *tokenizer_, SentencePieceBytes()};
    const std::string key = SupervisedKey(dataset);
    StageStore store(scratch_.path());
    const absl::StatusOr<StoredStage> stored = store.Produce(
        "pack", key, [&](StageWriter& stage) { return WriteSupervised(dataset, key, &stage); });
    EXPECT_OK(stored.status());
    return stored.ok() ? stored->directory : std::filesystem::path();
  }

  std::unique_ptr<Tokenizer> tokenizer_ = ParseTokenizer(SentencePieceBytes());
  ScratchDirectory scratch_;
};

}  // namespace braid

#endif  // BRAID_TESTS_PIPELINE_SUPERVISED_SUPERVISED_FIXTURE_H_

#include "pipeline/supervised/supervised_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "formats/indexed_dataset.h"
#include "formats/packed_dataset.h"
#include "formats/supervised_spans.h"
#include "retrieval/parallel_for.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"
#include "tests/pipeline/supervised/tiny_tokenizers.h"

namespace braid {
namespace supervised_dataset_test {

using absl::StatusCode;
using testing::IsEmpty;
using testing::SizeIs;

class SupervisedDatasetTest : public testing::Test {
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

// Checks every token of stored sequences against the examples of the plan.
void ExpectStored(const PackedExamples& part, const std::filesystem::path& prefix,
                  const std::filesystem::path& spans_path, int32_t eos_id) {
  ASSERT_OK_AND_ASSIGN(const IndexedDataset instances, IndexedDataset::Open(prefix));
  ASSERT_OK_AND_ASSIGN(const auto spans, ReadSpans(spans_path, instances));
  ASSERT_EQ(instances.num_sequences(), std::ssize(part.sequences));
  EXPECT_EQ(CountExamples(spans), std::ssize(part.examples));
  size_t row = 0;
  std::multiset<uint32_t> stored;
  for (size_t i = 0; i < part.sequences.size(); ++i) {
    const std::vector<int32_t> tokens = instances.Read(static_cast<int64_t>(i));
    EXPECT_THAT(tokens, SizeIs(129));
    size_t at = 0;
    for (const uint32_t number : part.sequences[i]) {
      const EncodedExample& example = part.examples[number];
      stored.insert(number);
      for (const TokenRange& target : example.targets) {
        const auto begin = static_cast<int32_t>(at);
        EXPECT_EQ(spans[row++], (SupervisedSpan{static_cast<int32_t>(i), begin,
                                                begin + target.begin, begin + target.end}));
      }
      for (const int32_t token : example.tokens) ASSERT_EQ(tokens[at++], token);
    }
    for (; at < tokens.size(); ++at) EXPECT_EQ(tokens[at], eos_id);
  }
  EXPECT_EQ(row, spans.size());
  EXPECT_EQ(stored.size(), part.examples.size());
  EXPECT_EQ(std::set<uint32_t>(stored.begin(), stored.end()).size(), part.examples.size());
}

TEST_F(SupervisedDatasetTest, StoresEveryTokenOfEveryExampleOnce) {
  const RecordSet records = Records(60);
  ASSERT_OK_AND_ASSIGN(const SupervisedPlan plan, Plan(records, Settings()));
  EXPECT_THAT(plan.training.examples, SizeIs(54));
  EXPECT_THAT(plan.validation.examples, SizeIs(6));
  EXPECT_GT(plan.filled, .85);
  const std::filesystem::path directory = Write(plan, records, Settings());
  EXPECT_OK(VerifyDataset(directory));
  ASSERT_OK_AND_ASSIGN(const DatasetInfo info, ReadDatasetInfo(directory));
  EXPECT_TRUE(info.supervised);
  EXPECT_EQ(info.num_examples, 54);
  EXPECT_EQ(info.num_heldout_documents, 6);
  EXPECT_THAT(info.domains, testing::ElementsAre("validation"));
  EXPECT_FALSE(info.begin_with_bos);
  ExpectStored(plan.training, directory / "instances", directory / kSpansName, 2);
  ExpectStored(plan.validation, directory / "heldout" / "validation",
               HeldoutSpansPath(directory / "heldout", "validation"), 2);
}

TEST_F(SupervisedDatasetTest, ExplainsWhereExamplesComeFrom) {
  const RecordSet records = Records(30);
  ASSERT_OK_AND_ASSIGN(const SupervisedPlan plan, Plan(records, Settings()));
  const std::filesystem::path directory = Write(plan, records, Settings());
  std::map<std::string, std::string> answers;  // by place
  for (int64_t i = 0; i < std::ssize(plan.training.sequences); ++i) {
    ASSERT_OK_AND_ASSIGN(const auto examples, ReadStoredExamples(directory, i));
    EXPECT_EQ(examples.size(), plan.training.sequences[static_cast<size_t>(i)].size());
    for (const StoredExample& example : examples) {
      const std::span<const int32_t> tokens(example.tokens);
      const auto begin = static_cast<size_t>(example.targets.at(0).begin);
      answers[example.place] = tokenizer_->Decode(tokens.subspan(begin));
    }
  }
  EXPECT_EQ(answers.size(), plan.training.examples.size());
  for (const auto& [place, answer] : answers) {
    const int line = std::stoi(place.substr(place.rfind(':') + 1));
    EXPECT_EQ(answer, absl::StrCat("\n", (line - 1) * 3)) << place;
  }
  EXPECT_FAILS(ReadStoredExamples(directory, 1000), StatusCode::kOutOfRange, "got 1000");
}

TEST_F(SupervisedDatasetTest, TheSameInputGivesTheSameBytes) {
  const RecordSet records = Records(40);
  std::vector<std::string> bytes, keys;
  for (const int threads : {1, 3}) {
    SetRetrievalThreads(threads);
    ASSERT_OK_AND_ASSIGN(const SupervisedPlan plan, Plan(records, Settings()));
    const std::filesystem::path directory = Write(plan, records, Settings());
    bytes.push_back(GetFile(directory / "manifest.json"));
    keys.push_back(directory.filename().string());
    std::filesystem::remove_all(directory);
  }
  SetRetrievalThreads(0);
  EXPECT_EQ(bytes[0], bytes[1]);
  SupervisedSettings other = Settings();
  other.seed = 1;
  ASSERT_OK_AND_ASSIGN(const SupervisedPlan plan, Plan(records, other));
  EXPECT_NE(Write(plan, records, other).filename().string(), keys[0]);
}

TEST_F(SupervisedDatasetTest, SegmentRoutedModelsGetOneExampleASequence) {
  SupervisedSettings settings = Settings();
  settings.pack = false;
  const RecordSet records = Records(20);
  ASSERT_OK_AND_ASSIGN(const SupervisedPlan plan, Plan(records, settings));
  EXPECT_THAT(plan.training.sequences, SizeIs(18));
  const std::filesystem::path directory = Write(plan, records, settings);
  ExpectStored(plan.training, directory / "instances", directory / kSpansName, 2);
}

TEST_F(SupervisedDatasetTest, HoldsEqualExamplesOutTogether) {
  RecordSet records = Records(20);
  const std::vector<SupervisedRecord> once = records.records;
  records.records.insert(records.records.end(), once.begin(), once.end());
  ASSERT_OK_AND_ASSIGN(const SupervisedPlan plan, Plan(records, Settings()));
  EXPECT_THAT(plan.validation.examples, SizeIs(4));
  EXPECT_EQ(plan.counts.num_duplicates, 0);
}

TEST_F(SupervisedDatasetTest, CountsDuplicatesOfValidationFiles) {
  const RecordSet training = Records(10), validation = Records(3, "valid.jsonl");
  ASSERT_OK_AND_ASSIGN(const SupervisedPlan plan, Plan(training, Settings(), &validation));
  EXPECT_THAT(plan.training.examples, SizeIs(10));
  EXPECT_EQ(plan.counts.num_duplicates, 3);
  SupervisedSettings strict = Settings();
  strict.strict = true;
  EXPECT_FAILS(Plan(training, strict, &validation).status(), StatusCode::kInvalidArgument,
               "data.jsonl:1: got an example that is also a validation example");
}

TEST_F(SupervisedDatasetTest, CountsWhatIsRejectedOrCut) {
  RecordSet records = Records(10);
  records.records[2].turns[0].text += std::string(300, 'q');  // a prompt of many tokens
  records.records[4].turns[1].text = std::string(300, 'z');   // an answer of many tokens
  records.records[5].turns[0].text += " </s>";
  records.rejected.push_back({"data.jsonl:77", "empty answer", ""});
  SupervisedSettings settings = Settings();
  settings.validation_share = 0;
  ASSERT_OK_AND_ASSIGN(const SupervisedPlan plan, Plan(records, settings));
  EXPECT_EQ(plan.counts.num_records, 11);
  EXPECT_EQ(plan.counts.num_cut, 1);
  EXPECT_EQ(plan.counts.num_control_texts, 1);
  EXPECT_EQ(CountsText(plan.counts.rejected), "1 answer longer than the sequence, 1 empty answer");
  EXPECT_THAT(plan.validation.examples, IsEmpty());
  const std::filesystem::path directory = Write(plan, records, settings);
  EXPECT_OK(VerifyDataset(directory));
  const std::string rejects = GetFile(directory / "rejects.jsonl");
  EXPECT_EQ(std::ranges::count(rejects, '\n'), 2);
  EXPECT_EQ(nlohmann::json::parse(GetFile(directory / kSupervisedReportName))["num_cut"], 1);
  settings.strict = true;
  EXPECT_FAILS(Plan(records, settings).status(), StatusCode::kInvalidArgument,
               "data.jsonl:77: empty answer, which --strict refuses");
  records.rejected.clear();
  records.records.erase(records.records.begin() + 4);
  EXPECT_FAILS(Plan(records, settings).status(), StatusCode::kInvalidArgument, "data.jsonl:3",
               "tokens too many");
}

TEST_F(SupervisedDatasetTest, LeavesAnExampleToTrainOn) {
  SupervisedSettings settings = Settings();
  settings.validation_share = .9;
  RecordSet equal = Records(1);
  equal.records.resize(5, equal.records[0]);
  for (const auto& [records, trained, validated] :
       {std::tuple(Records(1), 1, 0), {Records(2), 1, 1}, {equal, 5, 0}}) {
    ASSERT_OK_AND_ASSIGN(const SupervisedPlan plan, Plan(records, settings));
    EXPECT_THAT(plan.training.examples, SizeIs(trained));
    EXPECT_THAT(plan.validation.examples, SizeIs(validated));
    EXPECT_OK(VerifyDataset(Write(plan, records, settings)));
  }
}

TEST_F(SupervisedDatasetTest, RefusesDataThatLeaveNothing) {
  RecordSet none;
  none.rejected.push_back({"data.jsonl:1", "empty answer", ""});
  EXPECT_FAILS(Plan(none, Settings()).status(), StatusCode::kInvalidArgument,
               "got no example to train on from 1 records", "1 empty answer");
  EXPECT_FAILS(Plan(Records(3), Settings(), &none).status(), StatusCode::kInvalidArgument,
               "got no example to validate on");
}

}  // namespace supervised_dataset_test
}  // namespace braid

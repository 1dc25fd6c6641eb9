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
#include "formats/task_shares.h"
#include "formats/word_encoder.h"
#include "pipeline/stages/provenance.h"
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
  const SupervisedSettings settings = Settings();
  EXPECT_EQ(info, DescribeSupervised({"tiny", plan, records.sources, settings, *tokenizer_, ""},
                                     info.key));
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
  EXPECT_THAT(plan.rejected.back().detail,
              testing::MatchesRegex("got an answer of [0-9]+ tokens, expected at most the sequence "
                                    "length 128"));
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
  const auto expect = [&](const RecordSet& records, size_t trained, size_t validated) {
    ASSERT_OK_AND_ASSIGN(const SupervisedPlan plan, Plan(records, settings));
    EXPECT_THAT(plan.training.examples, SizeIs(trained));
    EXPECT_THAT(plan.validation.examples, SizeIs(validated));
    EXPECT_OK(VerifyDataset(Write(plan, records, settings)));
  };
  expect(Records(2), 1, 1);
  // A share that holds nothing out is refused, unless it is 0.
  for (const RecordSet& records : {Records(1), equal}) {
    EXPECT_FAILS(Plan(records, settings), StatusCode::kInvalidArgument,
                 "--validation: got a share of 0.9 of one example", "--validation 0");
  }
  settings.validation_share = 0;
  expect(Records(1), 1, 0);
  expect(equal, 5, 0);
}

TEST_F(SupervisedDatasetTest, HeldOutExamplesOfEachDomainAreStoredApart) {
  RecordSet records = Records(40, "a.jsonl");
  records.sources[0].domain = "first";
  RecordSet more = Records(20, "b.jsonl");
  for (SupervisedRecord& record : more.records) record.turns[0].text += " of b";
  more.sources[0].domain = "second";
  AppendRecords(more, &records);
  ASSERT_OK_AND_ASSIGN(const SupervisedPlan plan, Plan(records, Settings()));
  EXPECT_THAT(plan.validation.examples, SizeIs(4 + 2)) << "a tenth of each";
  const std::filesystem::path directory = Write(plan, records, Settings());
  EXPECT_OK(VerifyDataset(directory));
  ASSERT_OK_AND_ASSIGN(const DatasetInfo info, ReadDatasetInfo(directory));
  EXPECT_THAT(info.domains, testing::ElementsAre("first", "second"));
  EXPECT_EQ(info.num_heldout_documents, 6);
  size_t num_found = 0;
  for (const std::string& domain : info.domains) {
    const std::filesystem::path heldout = directory / "heldout";
    ASSERT_OK_AND_ASSIGN(const auto instances, IndexedDataset::Open(heldout / domain));
    ASSERT_OK_AND_ASSIGN(const auto spans, ReadSpans(HeldoutSpansPath(heldout, domain), instances));
    EXPECT_EQ(CountExamples(spans), domain == "first" ? 4 : 2);
    // Each example of the domain, and no other, has the tokens at its place.
    ASSERT_OK_AND_ASSIGN(const auto provenance,
                         Provenance::Open(HeldoutProvenancePath(directory, domain)));
    for (size_t i = 0; i < plan.validation.examples.size(); ++i) {
      const std::string& place = plan.validation.places[i];
      const bool here = place.starts_with(domain == "first" ? "a" : "b");
      const auto found = provenance.Document(*provenance.FindDocument(place));
      ASSERT_THAT(found, SizeIs(here ? 1 : 0)) << place;
      if (!here) continue;
      const std::vector<int32_t> tokens = instances.Read(found[0].instance);
      EXPECT_TRUE(std::ranges::equal(
          std::span(tokens).subspan(static_cast<size_t>(found[0].instance_offset),
                                    static_cast<size_t>(found[0].length)),
          plan.validation.examples[i].tokens));
      ++num_found;
    }
  }
  EXPECT_EQ(num_found, 6u);
  // The key depends on the domains.
  const auto key = [&] {
    return SupervisedKey({"tiny", plan, records.sources, Settings(), *tokenizer_, ""});
  };
  const std::string before = key();
  records.sources[1].domain = "third";
  EXPECT_NE(key(), before);
}

TEST_F(SupervisedDatasetTest, TheReportNamesTheSharesOfTasks) {
  RecordSet records = Records(10);
  const SupervisedPlan plan = Plan(records, Settings()).value();
  ASSERT_OK_AND_ASSIGN(const auto none, ReadTaskShares(Write(plan, records, Settings())));
  EXPECT_THAT(none, IsEmpty());
  records.sources[0].shared_task = "amazon";
  records.sources[0].task_share = .75;
  const std::filesystem::path directory = Write(plan, records, Settings());
  ASSERT_OK_AND_ASSIGN(const auto shares, ReadTaskShares(directory));
  ASSERT_THAT(shares, SizeIs(1));
  EXPECT_EQ(shares[0].task, "amazon");
  EXPECT_EQ(shares[0].share, .75);
  for (const std::string bad : {"{\"task_shares\": {\"amazon\": 1}}",
                                "{\"task_shares\": {\"a\": \"b\"}}", "[", "{\"task_shares\": 7}"}) {
    PutFile(directory / kSupervisedReportName, bad);
    EXPECT_FAILS(ReadTaskShares(directory), StatusCode::kDataLoss, kSupervisedReportName);
  }
  std::filesystem::remove(directory / kSupervisedReportName);
  EXPECT_OK(ReadTaskShares(directory));
}

TEST_F(SupervisedDatasetTest, TextsThatATaskIsEvaluatedOnAreCounted) {
  RecordSet records = Records(10);
  records.evaluated = {"data.jsonl:4", "data.jsonl:7"};
  ASSERT_OK_AND_ASSIGN(const SupervisedPlan plan, Plan(records, Settings()));
  EXPECT_EQ(plan.counts.num_evaluated, 2);
  SupervisedSettings strict = Settings();
  strict.strict = true;
  EXPECT_FAILS(Plan(records, strict), StatusCode::kInvalidArgument,
               "data.jsonl:4: got the text of an example that the task is evaluated on");
}

TEST_F(SupervisedDatasetTest, RefusesDataThatLeaveNothing) {
  RecordSet none;
  none.rejected.push_back({"data.jsonl:1", "empty answer", ""});
  EXPECT_FAILS(Plan(none, Settings()).status(), StatusCode::kInvalidArgument,
               "got no example to train on from 1 records, expected at least one",
               "1 empty answer");
  RecordSet light = Records(3);
  light.sources[0].weight = .001;
  EXPECT_FAILS(Plan(light, Settings()).status(), StatusCode::kInvalidArgument,
               "from 3 records, with weight 0.001 for data.jsonl, expected at least one");
  EXPECT_FAILS(Plan(Records(3), Settings(), &none).status(), StatusCode::kInvalidArgument,
               "got no example to validate on");
}

// Records whose answers are labels.
RecordSet Labeled(const std::vector<std::string>& labels, const std::string& file = "data.jsonl") {
  RecordSet set;
  for (size_t i = 0; i < labels.size(); ++i) {
    set.records.push_back({.place = absl::StrCat(file, ":", i + 1),
                           .turns = {{ChatRole::kUser, absl::StrCat("is it ", i, "?")},
                                     {ChatRole::kAssistant, " " + labels[i]}}});
  }
  set.sources.push_back({file, "prompt", std::ssize(labels)});
  return set;
}

TEST_F(SupervisedDatasetTest, StoresLabelsAfterPrompts) {
  SupervisedSettings settings = Settings();
  settings.encoding.labels = true;
  settings.labels.emplace();
  const RecordSet records = Labeled({"10", "2", "none", "2", "10", "none", "none", "2", "10", "2"});
  ASSERT_OK_AND_ASSIGN(const SupervisedPlan plan, Plan(records, settings));
  EXPECT_EQ(plan.labels->classes, std::vector<std::string>({"2", "10", "none"}));
  const ExampleEncoder encoder(*tokenizer_, settings.encoding);
  WordEncoder words(*tokenizer_, 1 << 20);
  for (size_t i = 0; i < plan.training.examples.size(); ++i) {
    const EncodedExample& example = plan.training.examples[i];
    const auto record =
        std::ranges::find(records.records, plan.training.places[i], &SupervisedRecord::place);
    SupervisedRecord prompt = *record;
    prompt.turns.pop_back();
    std::vector<int32_t> tokens = encoder.EncodePrompt(prompt, &words);
    const auto length = static_cast<int32_t>(tokens.size());
    tokens.push_back(tokenizer_->eos_id());
    EXPECT_EQ(example.tokens, tokens);
    ASSERT_THAT(example.targets, SizeIs(1));
    EXPECT_EQ(example.targets[0].begin, length);
    EXPECT_EQ(" " + example.label, record->turns.back().text);
  }
  const std::filesystem::path directory = Write(plan, records, settings);
  ASSERT_OK_AND_ASSIGN(const DatasetInfo info, ReadDatasetInfo(directory));
  EXPECT_EQ(info.classes, plan.labels->classes);
  EXPECT_OK(VerifyDataset(directory));
  std::map<std::string, std::string> stored;
  for (int64_t i = 0; i < info.num_instances; ++i) {
    ASSERT_OK_AND_ASSIGN(const auto examples, ReadStoredExamples(directory, i));
    for (const StoredExample& example : examples) stored[example.place] = example.label;
  }
  ASSERT_THAT(stored, SizeIs(plan.training.examples.size()));
  for (size_t i = 0; i < plan.training.examples.size(); ++i) {
    EXPECT_EQ(stored[plan.training.places[i]], plan.training.examples[i].label);
  }
  EXPECT_TRUE(std::filesystem::exists(directory / "heldout/validation.labels.npy"));
}

TEST_F(SupervisedDatasetTest, RefusesLabelsThatCannotBePredicted) {
  SupervisedSettings settings = Settings();
  settings.encoding.labels = true;
  settings.labels.emplace();
  EXPECT_FAILS(Plan(Labeled({"yes", "yes"}), settings), StatusCode::kInvalidArgument,
               "--label-head: got 1 different answer(s), such as \"yes\"");
  const RecordSet other = Labeled({"yes", "maybe"}, "valid.jsonl");
  EXPECT_FAILS(Plan(Labeled({"yes", "no"}), settings, &other), StatusCode::kInvalidArgument,
               "valid.jsonl:2: label: got \"maybe\", expected one of the classes that the training "
               "data has: no, yes");
  // The detail of a label that is missing says nothing about tokens.
  ASSERT_OK_AND_ASSIGN(const SupervisedPlan blank,
                       Plan(Labeled({"yes", "no", " ", "no"}), settings));
  ASSERT_THAT(blank.rejected, SizeIs(1));
  EXPECT_EQ(blank.rejected[0].reason, "empty label");
  EXPECT_EQ(blank.rejected[0].detail, "");
  settings.labels->regression = true;
  for (const std::string text : {"nan", "inf", "1e99", "one", "1,5"}) {
    EXPECT_FAILS(Plan(Labeled({"1", text}), settings), StatusCode::kInvalidArgument,
                 "data.jsonl:2: label: got \"" + text + "\", expected a finite number");
  }
  settings.validation_share = 0;
  ASSERT_OK_AND_ASSIGN(const SupervisedPlan plan, Plan(Labeled({"1", "-2.5e-1"}), settings));
  EXPECT_THAT(LabelNumbers(*plan.labels, plan.training.examples),
              testing::UnorderedElementsAre(1, -.25f));
}

TEST_F(SupervisedDatasetTest, FilesCountAsOftenAsTheirWeightsSay) {
  SupervisedSettings settings = Settings();
  settings.validation_share = 0;
  RecordSet records = Records(40, "a.jsonl");
  const RecordSet more = Records(30, "b.jsonl");
  for (SupervisedRecord record : more.records) {
    record.source = 1;
    record.turns[0].text += " of b";
    records.records.push_back(record);
  }
  records.sources.push_back(more.sources[0]);
  const auto counts_of = [&](double a, double b) {
    records.sources[0].weight = a;
    records.sources[1].weight = b;
    const SupervisedPlan plan = Plan(records, settings).value();
    std::map<std::string, int> counts;
    for (const std::string& place : plan.training.places) ++counts[place];
    std::map<std::string, std::map<int, int>> histogram;
    for (const auto& [place, count] : counts) ++histogram[place.substr(0, 1)][count];
    EXPECT_EQ(std::ssize(plan.training.places),
              plan.counts.of_source[0] + plan.counts.of_source[1]);
    return histogram;
  };
  using Histogram = std::map<int, int>;
  EXPECT_EQ(counts_of(2, .5)["a"], Histogram({{2, 40}}));
  EXPECT_EQ(counts_of(2, .5)["b"], Histogram({{1, 15}}));
  EXPECT_EQ(counts_of(1.25, 1)["a"], Histogram({{1, 30}, {2, 10}}));
  EXPECT_EQ(counts_of(1.25, 1)["b"], Histogram({{1, 30}}));
  // The draw depends on the seed, and the key on the weights.
  const auto key_of = [&](double weight, uint64_t seed) {
    settings.seed = seed;
    records.sources[0].weight = weight;
    const SupervisedPlan plan = Plan(records, settings).value();
    return SupervisedKey({"tiny", plan, records.sources, settings, *tokenizer_, ""});
  };
  const std::set<std::string> keys = {key_of(1, 0), key_of(.5, 0), key_of(.5, 1), key_of(3, 0)};
  EXPECT_THAT(keys, SizeIs(4));
  EXPECT_EQ(key_of(.5, 1), key_of(.5, 1));
  // Copies are one document, which is explained with all its places.
  settings.seed = 0;
  records.sources[0].weight = 3;
  const SupervisedPlan plan = Plan(records, settings).value();
  const std::filesystem::path directory = Write(plan, records, settings);
  ASSERT_OK_AND_ASSIGN(const DatasetInfo info, ReadDatasetInfo(directory));
  EXPECT_EQ(info.num_documents, 70);
  EXPECT_EQ(info.num_examples, 150);
  ASSERT_OK_AND_ASSIGN(const Provenance provenance, Provenance::Open(directory / "provenance"));
  EXPECT_THAT(provenance.Document(*provenance.FindDocument("a.jsonl:7")), SizeIs(3));
  EXPECT_THAT(provenance.Document(*provenance.FindDocument("b.jsonl:7")), SizeIs(1));
}

}  // namespace supervised_dataset_test
}  // namespace braid

#include "pipeline/supervised/supervised_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
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
#include "tests/base/status_matchers.h"
#include "tests/pipeline/supervised/supervised_fixture.h"

namespace braid {
namespace supervised_dataset_test {

using absl::StatusCode;
using testing::IsEmpty;
using testing::SizeIs;

class SupervisedDatasetTest : public SupervisedFixture {};

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

TEST_F(SupervisedDatasetTest, NamesOfFilesNeedNotBeUtf8) {
  const RecordSet records = Records(10, "caf\xE9.jsonl");
  const SupervisedPlan plan = Plan(records, Settings()).value();
  EXPECT_TRUE(std::filesystem::exists(Write(plan, records, Settings()) / kSupervisedReportName));
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

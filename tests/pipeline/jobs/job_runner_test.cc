#include "pipeline/job_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <cctype>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "formats/atomic_file.h"
#include "formats/indexed_dataset.h"
#include "formats/manifest.h"
#include "formats/npy.h"
#include "formats/tokenizer.h"
#include "pipeline/corpus_spec.h"
#include "pipeline/deduplicate.h"
#include "pipeline/deduplicate_stage.h"
#include "pipeline/document_store.h"
#include "pipeline/order_stage.h"
#include "pipeline/provenance.h"
#include "pipeline/stage_store.h"
#include "tests/pipeline/jobs/generated_corpus.h"

namespace braid {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// One home in which jobs are run one after the other.
class Home {
 public:
  explicit Home(fs::path root = NewDirectory(), const StageOptions& options = {})
      : root_(std::move(root)), store_(root_ / "store", options) {}
  // With a copy of everything that `other` has.
  Home(const Home& other) : Home() { fs::copy(other.root_, root_, fs::copy_options::recursive); }

  absl::StatusOr<v1::JobResult> Run(const v1::CorpusSpec& spec) {
    made_.clear();
    reused_.clear();
    const auto resolved = ResolveCorpusSpec(spec);
    EXPECT_TRUE(resolved.ok()) << resolved.status();
    JobHooks hooks;
    hooks.report = [&](const v1::StageProgress& progress) {
      ++reports_;
      if (progress.complete()) (progress.reused() ? reused_ : made_).push_back(progress.stage());
    };
    hooks.stop = [&] { return reports_ == stop_at_; };
    reports_ = 0;
    return RunJob(*resolved, &store_, hooks);
  }

  void StopAtReport(int report) { stop_at_ = report; }
  const std::vector<std::string>& made() const { return made_; }
  const std::vector<std::string>& reused() const { return reused_; }

  // The directory of a stage of which the store has one output.
  fs::path StageDirectory(const std::string& stage) const {
    for (const auto& entry : fs::directory_iterator(root_ / "store")) {
      const std::string name = entry.path().filename().string();
      if (name.rfind(stage + "-", 0) == 0) return entry.path();
    }
    ADD_FAILURE() << "no output of " << stage;
    return {};
  }

  // Manifests of everything in the store, by directory name.
  std::map<std::string, std::vector<ManifestEntry>> Contents() const {
    std::map<std::string, std::vector<ManifestEntry>> contents;
    for (const auto& entry : fs::directory_iterator(root_ / "store")) {
      const auto manifest = LoadVerifiedManifest(entry.path());
      EXPECT_TRUE(manifest.ok()) << manifest.status();
      contents[entry.path().filename().string()] = manifest->files;
    }
    return contents;
  }

 private:
  const fs::path root_;
  StageStore store_;
  int stop_at_ = 0;
  int reports_ = 0;
  std::vector<std::string> made_, reused_;
};

class JobRunnerTest : public testing::Test {
 protected:
  // One corpus and one finished job serve all tests that only look.
  static void SetUpTestSuite() {
    corpus_ = new fs::path(NewDirectory() / "tiny.jsonl");
    WriteCorpus(*corpus_);
    home_ = new Home();
    result_ = new absl::StatusOr<v1::JobResult>(home_->Run(SmallSpec(*corpus_)));
  }
  static void TearDownTestSuite() {
    delete result_;
    delete home_;
    delete corpus_;
  }

  void SetUp() override { ASSERT_TRUE(result_->ok()) << result_->status(); }
  static v1::CorpusSpec Spec() { return SmallSpec(*corpus_); }
  static const v1::JobResult& Result() { return **result_; }
  static fs::path Dataset() { return Result().dataset_dir(); }
  static nlohmann::json DatasetJson() {
    return nlohmann::json::parse(*ReadFile(Dataset() / "dataset.json"));
  }
  static std::vector<uint32_t> Numbers(const std::string& stage, const std::string& file) {
    const auto array = NpyArray<uint32_t>::Open(home_->StageDirectory(stage) / file);
    EXPECT_TRUE(array.ok()) << array.status();
    return {array->values().begin(), array->values().end()};
  }

  static fs::path* corpus_;
  static Home* home_;
  static absl::StatusOr<v1::JobResult>* result_;
};

fs::path* JobRunnerTest::corpus_ = nullptr;
Home* JobRunnerTest::home_ = nullptr;
absl::StatusOr<v1::JobResult>* JobRunnerTest::result_ = nullptr;

TEST_F(JobRunnerTest, AccountsForEveryRecord) {
  const v1::JobResult& result = Result();
  EXPECT_EQ(result.num_documents_read(), GeneratedCorpus::kRecords);
  EXPECT_EQ(result.num_rejected(), GeneratedCorpus::kRejects);
  EXPECT_EQ(result.num_duplicates(), GeneratedCorpus::kDuplicates);
  EXPECT_EQ(result.num_documents_read(), result.num_rejected() + result.num_duplicates() +
                                             result.num_heldout() + result.num_heldout_overlaps() +
                                             result.num_documents());
  EXPECT_GT(result.num_heldout(), 5);
  int64_t rejects = 0;
  for (const v1::RejectCount& reject : result.rejects()) rejects += reject.count();
  EXPECT_EQ(rejects, result.num_rejected());
  const std::string log = *ReadFile(home_->StageDirectory("ingest") / "rejects.jsonl");
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), GeneratedCorpus::kRejects);
}

TEST_F(JobRunnerTest, SplitsDocumentsIntoDisjointTrainingAndHeldout) {
  std::vector<uint32_t> all = Numbers("order", "order.npy");
  const std::vector<uint32_t> heldout = Numbers("order", "heldout.npy");
  EXPECT_EQ(static_cast<int64_t>(all.size()), Result().num_documents());
  EXPECT_EQ(static_cast<int64_t>(heldout.size()), Result().num_heldout());
  all.insert(all.end(), heldout.begin(), heldout.end());
  const auto keep = NpyArray<uint8_t>::Open(home_->StageDirectory("deduplicate") / "keep.npy");
  ASSERT_TRUE(keep.ok());
  std::vector<uint32_t> kept;
  for (uint32_t i = 0; i < keep->values().size(); ++i) {
    if (keep->values()[i] != 0) kept.push_back(i);
  }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, kept) << "every kept document exactly once";
}

TEST_F(JobRunnerTest, PacksEveryTokenOfEveryTrainingDocument) {
  const auto instances = IndexedDataset::Open(Dataset() / "instances");
  const auto tokens = IndexedDataset::Open(home_->StageDirectory("tokenize") / "tokens");
  const auto provenance = Provenance::Open(Dataset() / "provenance");
  ASSERT_TRUE(instances.ok() && tokens.ok() && provenance.ok()) << provenance.status();
  int64_t num_tokens = 0;
  for (const uint32_t document : Numbers("order", "order.npy")) {
    std::vector<int32_t> expected = tokens->Read(document);
    expected.push_back(2);  // EOS
    std::vector<int32_t> found;
    for (const ProvenanceSpan& span : provenance->Document(document)) {
      const std::vector<int32_t> instance = instances->Read(span.instance);
      ASSERT_EQ(span.document_offset, static_cast<int64_t>(found.size()));
      found.insert(found.end(), instance.begin() + span.instance_offset,
                   instance.begin() + span.instance_offset + span.length);
    }
    ASSERT_EQ(found, expected) << provenance->document_id(document);
    num_tokens += static_cast<int64_t>(expected.size());
  }
  EXPECT_EQ(num_tokens, Result().num_tokens());
  EXPECT_EQ(num_tokens, instances->num_tokens());
  EXPECT_EQ(instances->num_sequences(), Result().num_instances());
}

TEST_F(JobRunnerTest, FillsEveryInstanceButOne) {
  const auto instances = IndexedDataset::Open(Dataset() / "instances");
  ASSERT_TRUE(instances.ok());
  int shorter = 0;
  for (int64_t i = 0; i < instances->num_sequences(); ++i) {
    ASSERT_LE(instances->sequence_length(i), 129);
    shorter += instances->sequence_length(i) < 129 ? 1 : 0;
  }
  EXPECT_LE(shorter, 1);
}

TEST_F(JobRunnerTest, AnswersWhichDocumentsAreInAnInstanceAndBack) {
  const auto provenance = Provenance::Open(Dataset() / "provenance");
  ASSERT_TRUE(provenance.ok());
  EXPECT_EQ(provenance->num_instances(), Result().num_instances());
  for (uint32_t instance = 0; instance < 5; ++instance) {
    for (const ProvenanceSpan& span : provenance->Instance(instance)) {
      const std::string id(provenance->document_id(span.document));
      EXPECT_EQ(provenance->FindDocument(id), span.document);
      const auto back = provenance->Document(span.document);
      EXPECT_NE(std::find(back.begin(), back.end(), span), back.end());
    }
  }
  EXPECT_THAT(provenance->Document(Numbers("order", "heldout.npy")[0]), IsEmpty());
}

TEST_F(JobRunnerTest, WritesHeldoutWindowsOfOneDomainInSourceOrder) {
  const auto tokens = IndexedDataset::Open(home_->StageDirectory("tokenize") / "tokens");
  const auto names =
      nlohmann::json::parse(*ReadFile(home_->StageDirectory("ingest") / "domains.json"));
  const auto domains = NpyArray<int32_t>::Open(home_->StageDirectory("ingest") / "domains.npy");
  ASSERT_TRUE(tokens.ok() && domains.ok());
  EXPECT_EQ(DatasetJson()["domains"], names) << "each domain has held-out documents here";
  for (const std::string name : names) {
    std::vector<int32_t> expected;
    for (const uint32_t document : Numbers("order", "heldout.npy")) {
      if (names[static_cast<size_t>(domains->values()[document])] != name) continue;
      const std::vector<int32_t> own = tokens->Read(document);
      expected.insert(expected.end(), own.begin(), own.end());
      expected.push_back(2);
    }
    if (expected.size() % 129 == 1) expected.pop_back();
    const auto windows = IndexedDataset::Open(Dataset() / "heldout" / name);
    ASSERT_TRUE(windows.ok()) << windows.status();
    std::vector<int32_t> found;
    for (int64_t i = 0; i < windows->num_sequences(); ++i) {
      const std::vector<int32_t> window = windows->Read(i);
      found.insert(found.end(), window.begin(), window.end());
    }
    EXPECT_EQ(found, expected) << name;
  }
}

TEST_F(JobRunnerTest, DescribesTheDataset) {
  const nlohmann::json dataset = DatasetJson();
  EXPECT_EQ(dataset["sequence_length"], 128);
  EXPECT_EQ(dataset["eos_id"], 2);
  EXPECT_EQ(dataset["order"], "SIMILARITY");
  EXPECT_EQ(dataset["name"], "tiny.jsonl");
  EXPECT_EQ(dataset["num_instances"], Result().num_instances());
  EXPECT_EQ(dataset["num_tokens"], Result().num_tokens());
  const auto tokenizer = Tokenizer::Load(Dataset() / "tokenizer.model");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ(dataset["vocab_size"], (*tokenizer)->vocab_size());
  const auto manifest = LoadVerifiedManifest(Dataset());
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(dataset["key"], manifest->key);
  size_t num_files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(Dataset())) {
    num_files += entry.is_regular_file() ? 1 : 0;
  }
  EXPECT_EQ(num_files, manifest->files.size() + 1) << "every file but the manifest is listed";
}

TEST_F(JobRunnerTest, PutsSimilarDocumentsTogether) {
  EXPECT_GT(Result().adjacent_cosine(), Result().random_adjacent_cosine() + 0.2);
  EXPECT_GT(Result().recall_at_k(), 0.99);
}

TEST_F(JobRunnerTest, RunsTheSameSpecFromTheStoreAlone) {
  const auto again = home_->Run(Spec());
  ASSERT_TRUE(again.ok());
  EXPECT_THAT(home_->made(), IsEmpty());
  EXPECT_EQ(home_->reused(), StageNames());
  EXPECT_EQ(again->SerializeAsString(), Result().SerializeAsString());
}

TEST_F(JobRunnerTest, GivesTheSameBytesInAnotherHomeWithAnotherNumberOfThreads) {
  Home other;
  v1::CorpusSpec spec = Spec();
  spec.set_num_threads(1);
  ASSERT_TRUE(other.Run(spec).ok());
  EXPECT_EQ(other.made(), StageNames());
  EXPECT_EQ(other.Contents(), home_->Contents());
}

TEST_F(JobRunnerTest, RedoesOnlyOrderAndPackForAnotherOrder) {
  Home home(*home_);
  v1::CorpusSpec spec = Spec();
  spec.set_order(v1::RANDOM);
  const auto random = home.Run(spec);
  ASSERT_TRUE(random.ok()) << random.status();
  EXPECT_THAT(home.made(), ElementsAre("order", "pack"));
  EXPECT_EQ(home.reused().size(), 5u);
  EXPECT_NE(random->dataset_dir(), Result().dataset_dir());
  EXPECT_EQ(random->num_tokens(), Result().num_tokens());
  EXPECT_NEAR(random->adjacent_cosine(), random->random_adjacent_cosine(), 0.15);
  for (const char* domain : {"code", "law", "prose"}) {
    const std::string name = std::string("heldout/") + domain + ".bin";
    EXPECT_EQ(*ReadFile(fs::path(random->dataset_dir()) / name), *ReadFile(Dataset() / name))
        << "runs on different orders are evaluated on the same text";
  }
}

TEST_F(JobRunnerTest, RedoesOnlyWhatDependsOnAChangedSetting) {
  const std::vector<std::string> all = StageNames();
  // The setting and the first stage that is made anew.
  const std::vector<std::pair<std::string, std::function<void(v1::CorpusSpec&)>>> changes = {
      {"order", [](auto& spec) { spec.set_order(v1::RANDOM); }},
      {"order", [](auto& spec) { spec.set_order(v1::SOURCE); }},
      {"neighbors", [](auto& spec) { spec.mutable_neighbors()->set_k(5); }},
      {"deduplicate", [](auto& spec) { spec.mutable_deduplicate()->set_min_jaccard(0.7); }},
      {"order", [](auto& spec) { spec.mutable_deduplicate()->set_max_heldout_cosine(0.95); }},
      {"order", [](auto& spec) { spec.mutable_pack()->set_heldout_fraction(0.2); }},
      {"pack", [](auto& spec) { spec.mutable_pack()->set_sequence_length(64); }},
  };
  Home home(*home_);
  for (const auto& [first, change] : changes) {
    v1::CorpusSpec spec = Spec();
    change(spec);
    const auto result = home.Run(spec);
    ASSERT_TRUE(result.ok()) << result.status();
    const auto split = std::find(all.begin(), all.end(), first);
    EXPECT_EQ(home.reused(), std::vector<std::string>(all.begin(), split));
    EXPECT_EQ(home.made(), std::vector<std::string>(split, all.end()));
    EXPECT_NE(result->dataset_dir(), Result().dataset_dir());
  }
  ASSERT_TRUE(home.Run(Spec()).ok());
  EXPECT_THAT(home.made(), IsEmpty()) << "the first job's outputs are still there";
}

// Groups of near-copies, larger than the neighbour lists, with planted kinds.
std::vector<std::string> PlantedTexts(std::mt19937_64* random) {
  const auto sentence = [&] {
    std::string text;
    for (int i = 0; i < 40; ++i) {
      for (int letter = 0; letter < 5; ++letter) text += char('a' + (*random)() % 26);
      text += ' ';
    }
    return text;
  };
  std::vector<std::string> texts;
  for (int group = 0; group < 60; ++group) {
    std::string text = sentence();
    texts.push_back(text);
    for (int copy = 0; copy < 5; ++copy) {
      // A chain: each copy is an edit of the one before it.
      for (int edit = 0; edit < 2; ++edit) text[(*random)() % text.size()] = 'x';
      texts.push_back(text);
    }
    // The same after normalisation.
    std::string shouted = "-- " + texts[texts.size() - 6] + "!";
    for (char& c : shouted) c = static_cast<char>(std::toupper(c));
    texts.push_back(shouted);
  }
  return texts;
}

TEST_F(JobRunnerTest, SharesNoNearDuplicateBetweenTrainingAndHeldout) {
  std::mt19937_64 random(9);
  const std::vector<std::string> texts = PlantedTexts(&random);
  const fs::path corpus = NewDirectory() / "planted.jsonl";
  std::ofstream file(corpus);
  for (size_t i = 0; i < texts.size(); ++i) {
    file << nlohmann::json{{"id", "doc-" + std::to_string(i)}, {"text", texts[i]}}.dump() << "\n";
  }
  file.close();
  Home home;
  v1::CorpusSpec spec = SmallSpec(corpus);
  // Lists of one neighbour leave many pairs that removing duplicates never sees.
  spec.mutable_neighbors()->set_k(1);
  spec.mutable_pack()->set_heldout_fraction(0.3);
  const auto result = home.Run(spec);
  ASSERT_TRUE(result.ok()) << result.status();

  EXPECT_EQ(result->num_duplicates(),
            result->num_exact_duplicates() + result->num_near_duplicates());
  EXPECT_GE(result->num_exact_duplicates() + result->num_near_duplicates(), 60 + 60);
  EXPECT_GT(result->num_heldout_overlaps(), 0) << "the test would prove nothing";
  EXPECT_EQ(result->num_documents_read(),
            result->num_rejected() + result->num_duplicates() + result->num_heldout() +
                result->num_heldout_overlaps() + result->num_documents());

  const auto documents = DocumentStore::Open(home.StageDirectory("ingest"));
  const auto order = StoredOrder::Read(home.StageDirectory("order"));
  ASSERT_TRUE(documents.ok() && order.ok()) << order.status();
  std::vector<std::vector<uint64_t>> grams;
  for (int64_t i = 0; i < documents->size(); ++i) {
    grams.push_back(CharacterNgrams(NormalizeText(documents->text(i))));
  }
  for (const uint32_t heldout : order->heldout) {
    for (const uint32_t training : order->training.order) {
      ASSERT_LT(Jaccard(grams[heldout], grams[training]), 0.8)
          << documents->id(heldout) << " and " << documents->id(training);
    }
  }
  for (const HeldoutOverlap& overlap : order->overlaps) {
    EXPECT_EQ(overlap.jaccard,
              static_cast<float>(Jaccard(grams[overlap.document], grams[overlap.heldout])));
  }
  const auto report =
      nlohmann::json::parse(*ReadFile(home.StageDirectory("order") / "heldout_overlaps.json"));
  EXPECT_EQ(report["num_overlaps"], result->num_heldout_overlaps());
  EXPECT_EQ(report["num_heldout"], result->num_heldout());
}

TEST_F(JobRunnerTest, ReportsEveryDuplicate) {
  const auto report =
      nlohmann::json::parse(*ReadFile(home_->StageDirectory("deduplicate") / "duplicates.json"));
  EXPECT_EQ(report["num_removed"], GeneratedCorpus::kDuplicates);
  EXPECT_EQ(report["num_exact"], 2);
  EXPECT_EQ(report["num_near"], 2);
  EXPECT_EQ(report["domains"]["prose"]["num_exact"], 2);
  EXPECT_EQ(report["domains"]["prose"]["num_near"], 2);
  EXPECT_EQ(report["domains"]["law"]["share"], 0.0);
  EXPECT_EQ(report["examples"][0]["removed"], "copy-0");
  EXPECT_EQ(report["examples"][0]["kept"], "doc-0");
  const auto stored = StoredDuplicates::Open(home_->StageDirectory("deduplicate"));
  ASSERT_TRUE(stored.ok()) << stored.status();
  EXPECT_EQ(stored->num_exact(), 2);
  EXPECT_EQ(stored->num_near(), 2);
  for (uint32_t i = 0; i < GeneratedCorpus::kUnique; ++i) EXPECT_FALSE(stored->Find(i).has_value());
  const auto pair = stored->Find(GeneratedCorpus::kUnique + 3);
  ASSERT_TRUE(pair.has_value());
  EXPECT_EQ(pair->kept, 27u);
  EXPECT_FALSE(pair->exact);
  EXPECT_GE(pair->jaccard, 0.8);
  EXPECT_GE(pair->cosine, 0.9);
}

TEST_F(JobRunnerTest, ReachesTheSameBytesWhereverItIsStopped) {
  Home home(NewDirectory(), {.chunk_bytes = 3000});
  int attempts = 0;
  absl::Status status = absl::CancelledError();
  // Each attempt is stopped one report later, and finds what the ones before it
  // committed.
  while (absl::IsCancelled(status)) {
    home.StopAtReport(++attempts);
    status = home.Run(Spec()).status();
  }
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_GT(attempts, static_cast<int>(StageNames().size()));
  EXPECT_EQ(home.Contents(), home_->Contents());
}

TEST_F(JobRunnerTest, RepairsALostAndADamagedStage) {
  Home home(*home_);
  const auto before = home.Contents();
  fs::remove_all(home.StageDirectory("pack"));
  fs::remove(home.StageDirectory("order") / "manifest.json");
  fs::resize_file(home.StageDirectory("embed") / "embeddings.npy", 300);
  ASSERT_TRUE(home.Run(Spec()).ok());
  EXPECT_THAT(home.made(), ElementsAre("embed", "order", "pack"));
  EXPECT_EQ(home.Contents(), before);
}

TEST_F(JobRunnerTest, HoldsOutNothingWhenAskedTo) {
  Home home(*home_);
  v1::CorpusSpec spec = Spec();
  spec.mutable_pack()->set_heldout_fraction(-1);
  spec.mutable_deduplicate()->set_disabled(true);
  const auto result = home.Run(spec);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->num_heldout(), 0);
  EXPECT_EQ(result->num_duplicates(), 0);
  const auto dataset =
      nlohmann::json::parse(*ReadFile(fs::path(result->dataset_dir()) / "dataset.json"));
  EXPECT_EQ(dataset["domains"].size(), 0u);
}

TEST_F(JobRunnerTest, TakesAGivenTokenizerByContent) {
  Home home(*home_);
  const fs::path model = NewDirectory() / "given.model";
  fs::copy_file(Dataset() / "tokenizer.model", model);
  v1::CorpusSpec spec = Spec();
  spec.mutable_tokenizer()->Clear();
  spec.mutable_tokenizer()->set_model_path(model.string());
  const auto first = home.Run(spec);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->num_tokens(), Result().num_tokens());
  const fs::path elsewhere = NewDirectory() / "other.model";
  fs::copy_file(model, elsewhere);
  spec.mutable_tokenizer()->set_model_path(elsewhere.string());
  ASSERT_TRUE(home.Run(spec).ok());
  EXPECT_THAT(home.made(), IsEmpty());
}

TEST_F(JobRunnerTest, SaysWhatIsWrongWithTheInput) {
  const auto message = [](const v1::CorpusSpec& spec) {
    const auto result = Home(*home_).Run(spec);
    EXPECT_FALSE(result.ok());
    return std::string(result.status().message());
  };
  v1::CorpusSpec spec = Spec();
  spec.set_paths(0, "/nowhere/at-all.jsonl");
  EXPECT_THAT(message(spec), AllOf(HasSubstr("ingest"), HasSubstr("/nowhere/at-all.jsonl")));

  spec = Spec();
  spec.mutable_ingest()->set_text_field("body");
  EXPECT_THAT(message(spec), AllOf(HasSubstr("body"), HasSubstr("text")));

  const fs::path empty = NewDirectory() / "empty.jsonl";
  std::ofstream(empty) << "{\"text\": \" \"}\n{\"text\"\n{\"text\": \"\"}\n";
  spec = Spec();
  spec.set_paths(0, empty.string());
  EXPECT_THAT(message(spec), AllOf(HasSubstr("3"), HasSubstr("empty"), HasSubstr("invalid json")));

  spec = Spec();
  spec.mutable_ingest()->set_strict(true);
  EXPECT_THAT(message(spec), AllOf(HasSubstr("tiny.jsonl, record at byte "), HasSubstr("strict")));

  spec = Spec();
  spec.mutable_pack()->set_sequence_length(1 << 20);
  EXPECT_THAT(message(spec), AllOf(HasSubstr("pack.sequence_length 1048576"),
                                   HasSubstr("got " + std::to_string(Result().num_tokens())),
                                   HasSubstr("needed 1048577")));

  spec = Spec();
  spec.mutable_tokenizer()->Clear();
  spec.mutable_tokenizer()->set_model_path("/nowhere/t.model");
  EXPECT_THAT(message(spec), AllOf(HasSubstr("tokenize"), HasSubstr("/nowhere/t.model")));

  spec = Spec();
  spec.mutable_pack()->set_heldout_fraction(0.99999);
  EXPECT_THAT(message(spec), HasSubstr("pack.heldout_fraction"));
}

TEST_F(JobRunnerTest, LeavesNoDirectoryOfAFailedStage) {
  Home home(*home_);
  v1::CorpusSpec spec = Spec();
  spec.mutable_pack()->set_sequence_length(1 << 20);
  EXPECT_FALSE(home.Run(spec).ok());
  EXPECT_EQ(home.Contents(), home_->Contents());
}

TEST_F(JobRunnerTest, SaysWhereSpaceIsMissing) {
  // A limit on file sizes stands in for a full disk.
  struct rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small = {20000, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto result = Home().Run(Spec());
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kResourceExhausted) << result.status();
  EXPECT_THAT(std::string(result.status().message()),
              AllOf(HasSubstr("ingest"), HasSubstr("texts.bin")));
}

// Runs a job whose process is killed, without warning, at its n-th report.
void RunUntilKilled(const fs::path& home, const fs::path& corpus, int n) {
  StageStore store(home / "store");
  JobHooks hooks;
  hooks.report = [&](const v1::StageProgress&) {
    if (--n == 0) raise(SIGKILL);
  };
  hooks.stop = [] { return false; };
  RunJob(*ResolveCorpusSpec(SmallSpec(corpus)), &store, hooks).status().IgnoreError();
}

TEST(JobRunnerDeathTest, ReachesTheSameBytesAfterBeingKilled) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  // The killed processes run this test from its start: they find the directory
  // in the environment.
  setenv("BRAID_KILLED_JOB", NewDirectory().c_str(), /*replace=*/0);
  const fs::path directory = getenv("BRAID_KILLED_JOB");
  const fs::path corpus = directory / "tiny.jsonl";
  if (!fs::exists(corpus)) WriteCorpus(corpus);
  for (const int report : {2, 5, 13}) {
    EXPECT_EXIT(RunUntilKilled(directory, corpus, report), testing::KilledBySignal(SIGKILL), "");
  }
  Home killed(directory);
  ASSERT_TRUE(killed.Run(SmallSpec(corpus)).ok());
  EXPECT_THAT(killed.reused(), Not(IsEmpty()));
  Home whole;
  ASSERT_TRUE(whole.Run(SmallSpec(corpus)).ok());
  EXPECT_EQ(killed.Contents(), whole.Contents());
}

}  // namespace
}  // namespace braid

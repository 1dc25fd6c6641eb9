#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/atomic_file.h"
#include "formats/indexed_dataset.h"
#include "formats/packed_dataset.h"
#include "pipeline/corpus/corpus_spec.h"
#include "pipeline/jobs/job_runner.h"
#include "pipeline/ordering/instance_layout.h"
#include "pipeline/ordering/packing.h"
#include "pipeline/stages/provenance.h"
#include "tests/formats/tiny_tokenizer_json.h"
#include "tests/pipeline/jobs/finished_job.h"
#include "tests/pipeline/jobs/generated_corpus.h"

namespace braid {
namespace job_reuse_test {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class JobReuseTest : public FinishedJobTest {
 protected:
  // Returns the tokens of a document in the instances of a dataset.
  static std::vector<int32_t> TokensOf(const fs::path& dataset, const Provenance& provenance,
                                       uint32_t document) {
    const IndexedDataset instances = IndexedDataset::Open(dataset / "instances").value();
    std::vector<int32_t> tokens;
    for (const ProvenanceSpan& span : provenance.Document(document)) {
      instances.AppendRange(span.instance, span.instance_offset, span.length, &tokens);
    }
    return tokens;
  }
};

TEST_F(JobReuseTest, RunsTheSameSpecFromTheStoreAlone) {
  const auto again = finished_home().Run(Spec());
  ASSERT_TRUE(again.ok());
  EXPECT_THAT(finished_home().made(), IsEmpty());
  EXPECT_EQ(finished_home().reused(), StageNames());
  EXPECT_EQ(again->SerializeAsString(), Result().SerializeAsString());
}

TEST_F(JobReuseTest, GivesTheSameBytesInAnotherHomeWithAnotherNumberOfThreads) {
  Home other;
  v1::CorpusSpec spec = Spec();
  spec.set_num_threads(1);
  ASSERT_TRUE(other.Run(spec).ok());
  EXPECT_EQ(other.made(), StageNames());
  EXPECT_EQ(other.Contents(), finished_home().Contents());
}

TEST_F(JobReuseTest, RepeatsOnlyOrderAndPackForAnotherOrder) {
  Home home(finished_home());
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

TEST_F(JobReuseTest, RepeatsOnlyStagesThatDependOnAChangedSetting) {
  const std::vector<std::string> all = StageNames();
  // The setting and the first stage that is repeated.
  const std::vector<std::pair<std::string, std::function<void(v1::CorpusSpec&)>>> changes = {
      {"order", [](auto& spec) { spec.set_order(v1::RANDOM); }},
      {"order", [](auto& spec) { spec.set_order(v1::SOURCE); }},
      {"neighbors", [](auto& spec) { spec.mutable_neighbors()->set_k(5); }},
      {"deduplicate", [](auto& spec) { spec.mutable_deduplicate()->set_min_jaccard(0.7); }},
      {"deduplicate",
       [](auto& spec) { spec.mutable_deduplicate()->set_near_duplicates("minhash"); }},
      {"order", [](auto& spec) { spec.mutable_deduplicate()->set_max_heldout_cosine(0.95); }},
      {"order", [](auto& spec) { spec.mutable_deduplicate()->set_max_heldout_containment(0.3); }},
      {"order", [](auto& spec) { spec.mutable_pack()->set_heldout_fraction(0.2); }},
      {"pack", [](auto& spec) { spec.mutable_pack()->set_sequence_length(64); }},
      {"pack", [](auto& spec) { spec.mutable_pack()->set_domain_clusters(3); }},
      {"pack", [](auto& spec) { spec.mutable_pack()->set_heldout_by_similarity(true); }},
      {"pack", [](auto& spec) { spec.mutable_pack()->set_runs_per_instance(2); }},
  };
  Home home(finished_home());
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
  EXPECT_THAT(home.made(), IsEmpty()) << "the outputs of the first job are kept";
}

TEST_F(JobReuseTest, HeldoutDocumentsFollowRelatedOnesOnRequest) {
  Home home(finished_home());
  v1::CorpusSpec spec = Spec();
  spec.mutable_pack()->set_heldout_fraction(0.4);
  const auto plain = home.Run(spec);
  ASSERT_TRUE(plain.ok()) << plain.status();
  spec.mutable_pack()->set_heldout_by_similarity(true);
  const auto related = home.Run(spec);
  ASSERT_TRUE(related.ok()) << related.status();
  EXPECT_THAT(home.made(), ElementsAre("pack"));
  const fs::path before = plain->dataset_dir(), after = related->dataset_dir();
  EXPECT_EQ(*ReadFile(before / "instances.bin"), *ReadFile(after / "instances.bin"));
  // The same tokens in windows of the same lengths.
  const std::string old_code = *ReadFile(before / "heldout/code.bin");
  const std::string new_code = *ReadFile(after / "heldout/code.bin");
  EXPECT_NE(old_code, new_code);
  EXPECT_EQ(old_code.size(), new_code.size());
  EXPECT_EQ(*ReadFile(before / "heldout/code.idx"), *ReadFile(after / "heldout/code.idx"));
}

TEST_F(JobReuseTest, RunsOfSimilarDocumentsShareAnInstanceOnRequest) {
  Home home(finished_home());
  v1::CorpusSpec spec = Spec();
  spec.mutable_pack()->set_runs_per_instance(1);
  ASSERT_TRUE(home.Run(spec).ok());
  EXPECT_THAT(home.made(), IsEmpty()) << "one run is the default";
  spec.mutable_pack()->set_runs_per_instance(2);
  const auto result = home.Run(spec);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->num_tokens(), Result().num_tokens());
  const fs::path packed = result->dataset_dir();
  EXPECT_EQ(ReadDatasetInfo(packed).value().runs_per_instance, 2);
  EXPECT_NE(*ReadFile(packed / "instances.bin"), *ReadFile(Dataset() / "instances.bin"));
  for (const char* domain : {"code", "law", "prose"}) {
    const std::string name = std::string("heldout/") + domain + ".bin";
    EXPECT_EQ(*ReadFile(packed / name), *ReadFile(Dataset() / name));
  }
  // Provenance finds every document of the order, and the instances are those of the shuffled runs.
  const Provenance before = Provenance::Open(Dataset() / "provenance").value();
  const Provenance after = Provenance::Open(packed / "provenance").value();
  const std::vector<uint32_t> order = Numbers("order", "order.npy");
  std::map<uint32_t, int32_t> length_of;
  std::vector<int32_t> lengths;
  for (const uint32_t document : order) {
    EXPECT_EQ(TokensOf(packed, after, document), TokensOf(Dataset(), before, document));
    length_of[document] = static_cast<int32_t>(TokensOf(packed, after, document).size()) - 1;
    lengths.push_back(length_of[document]);
  }
  // Half of 129 tokens, rounded up.
  const std::vector<uint32_t> runs = ShuffleRuns(order, lengths, 65, spec.seed());
  lengths.clear();
  for (const uint32_t document : runs) lengths.push_back(length_of[document]);
  const InstanceLayout layout(runs, lengths, spec.pack().sequence_length());
  uint32_t stored = 0;
  for (const uint32_t instance : InstanceShuffle(layout.num_instances(), spec.seed())) {
    std::vector<ProvenanceSpan> spans;
    layout.AppendSpans(instance, stored, &spans);
    EXPECT_EQ(after.Instance(stored++), spans);
  }
}

TEST_F(JobReuseTest, DocumentsBeginWithBosOnRequest) {
  Home home(finished_home());
  v1::CorpusSpec spec = Spec();
  spec.mutable_tokenizer()->set_begin_with_bos(true);
  const auto result = home.Run(spec);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(home.made(), testing::AllOf(testing::Contains("tokenize"), testing::Contains("pack"),
                                          testing::Not(testing::Contains("embed"))));
  const DatasetInfo before = ReadDatasetInfo(Dataset()).value();
  const DatasetInfo after = ReadDatasetInfo(result->dataset_dir()).value();
  EXPECT_FALSE(before.begin_with_bos);
  EXPECT_TRUE(after.begin_with_bos);
  EXPECT_EQ(after.num_tokens, before.num_tokens + before.num_documents);
  const auto instances =
      IndexedDataset::Open(fs::path(result->dataset_dir()) / "instances").value();
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < instances.num_sequences(); ++i) {
    instances.AppendRange(i, 0, instances.sequence_length(i), &tokens);
  }
  EXPECT_EQ(std::ranges::count(tokens, 1), after.num_documents);  // <s>
}

TEST_F(JobReuseTest, AnotherEndTokenBesideTheTokenizerIsAnotherTokenizer) {
  const fs::path directory = NewDirectory();
  nlohmann::json tokenizer = TinyTokenizer({});
  const auto end = tokenizer["added_tokens"][0]["id"].get<int32_t>();
  tokenizer["added_tokens"].push_back({{"id", end + 1}, {"content", "<end>"}, {"special", true}});
  ASSERT_TRUE(WriteFileAtomically(directory / "tokenizer.json", tokenizer.dump()).ok());
  Home home(finished_home());
  v1::CorpusSpec spec = Spec();
  spec.mutable_tokenizer()->Clear();
  spec.mutable_tokenizer()->set_model_path((directory / "tokenizer.json").string());
  const auto before = home.Run(spec);
  ASSERT_TRUE(before.ok()) << before.status();
  EXPECT_EQ(ReadDatasetInfo(before->dataset_dir())->eos_id, end);
  ASSERT_TRUE(
      WriteFileAtomically(directory / "tokenizer_config.json", R"({"eos_token": "<end>"})").ok());
  const auto after = home.Run(spec);
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_THAT(home.made(), ElementsAre("tokenize", "pack"));
  EXPECT_EQ(ReadDatasetInfo(after->dataset_dir())->eos_id, end + 1);
}

TEST_F(JobReuseTest, OrdersPartByPartOnRequest) {
  Home home(finished_home());
  v1::CorpusSpec spec = Spec();
  spec.set_order_partitions(4);
  const auto result = home.Run(spec);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(home.made(), ElementsAre("order", "pack"));
  EXPECT_EQ(result->num_tokens(), Result().num_tokens());
  EXPECT_GT(result->adjacent_cosine(), Result().adjacent_cosine() - 0.1);
  Home other(finished_home());
  spec.set_num_threads(1);
  ASSERT_TRUE(other.Run(spec).ok());
  EXPECT_EQ(other.Contents(), home.Contents());
  spec.set_order_partitions(-1);
  EXPECT_FALSE(ResolveCorpusSpec(spec).ok());
}

TEST_F(JobReuseTest, ReachesTheSameBytesThroughListsWhereverItIsStopped) {
  v1::CorpusSpec spec = Spec();
  spec.mutable_neighbors()->set_index("IVF6,Flat");
  Home whole(finished_home()), home(finished_home(), {.chunk_bytes = 3000});
  ASSERT_TRUE(whole.Run(spec).ok());
  int attempts = 0;
  absl::Status status = absl::CancelledError();
  while (absl::IsCancelled(status)) {
    home.StopAtReport(++attempts);
    status = home.Run(spec).status();
  }
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_GT(attempts, 5);
  EXPECT_EQ(home.Contents(), whole.Contents());
}

TEST_F(JobReuseTest, ReachesTheSameBytesWhereverItIsStopped) {
  Home home(NewDirectory(), {.chunk_bytes = 3000});
  int attempts = 0;
  absl::Status status = absl::CancelledError();
  // Each attempt is stopped one report later than the previous one and reuses what was committed.
  while (absl::IsCancelled(status)) {
    home.StopAtReport(++attempts);
    status = home.Run(Spec()).status();
  }
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_GT(attempts, static_cast<int>(StageNames().size()));
  EXPECT_EQ(home.Contents(), finished_home().Contents());
}

TEST_F(JobReuseTest, RepairsALostAndADamagedStage) {
  Home home(finished_home());
  const auto before = home.Contents();
  fs::remove_all(home.StageDirectory("pack"));
  fs::remove(home.StageDirectory("order") / "manifest.json");
  fs::resize_file(home.StageDirectory("embed") / "embeddings.npy", 300);
  ASSERT_TRUE(home.Run(Spec()).ok());
  EXPECT_THAT(home.made(), ElementsAre("embed", "order", "pack"));
  EXPECT_EQ(home.Contents(), before);
}

TEST_F(JobReuseTest, IdentifiesAGivenTokenizerByContent) {
  Home home(finished_home());
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

TEST_F(JobReuseTest, LeavesNoDirectoryOfAFailedStage) {
  Home home(finished_home());
  v1::CorpusSpec spec = Spec();
  spec.mutable_pack()->set_sequence_length(1 << 20);
  EXPECT_THAT(std::string(home.Run(spec).status().message()), HasSubstr("exceeds the corpus"));
  EXPECT_EQ(home.Contents(), finished_home().Contents());
}

TEST_F(JobReuseTest, ReportsWhereSpaceIsMissing) {
  // A limit on file sizes simulates a full disk.
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

}  // namespace job_reuse_test
}  // namespace braid

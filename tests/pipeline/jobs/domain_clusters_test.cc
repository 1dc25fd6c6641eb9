// Domains that are clusters of the embeddings, in complete jobs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "braid/v1/pipeline.pb.h"
#include "formats/indexed_dataset.h"
#include "formats/npy.h"
#include "pipeline/corpus/corpus_spec.h"
#include "pipeline/jobs/job_explanation.h"
#include "pipeline/jobs/job_runner.h"
#include "pipeline/stages/domain_summary.h"
#include "tests/base/status_matchers.h"
#include "tests/pipeline/jobs/finished_job.h"
#include "tests/pipeline/jobs/generated_corpus.h"

namespace braid {
namespace domain_clusters_test {

namespace fs = std::filesystem;
using testing::ElementsAre;

// Groups of documents with distinct vocabularies; only the ids reveal the groups.
constexpr std::array kGroupSizes = {150, 90, 45, 20};

std::string GroupOf(const std::string& id) { return id.substr(0, id.find('-')); }

std::string Word(size_t group, uint64_t number) {
  static const char* const kSyllables[] = {"ba", "de", "ki", "lo", "mu", "ra", "se", "ti"};
  std::string word(1, static_cast<char>('w' + group));
  for (int i = 0; i < 3; ++i, number /= 8) word += kSyllables[number % 8];
  return word;
}

void WriteGroups(const fs::path& path) {
  std::mt19937_64 random(11);
  std::vector<std::string> lines;
  for (size_t group = 0; group < kGroupSizes.size(); ++group) {
    for (int i = 0; i < kGroupSizes[group]; ++i) {
      std::string text;
      for (uint64_t left = 40 + random() % 40; left > 0; --left) {
        text += Word(group, random() % 60) + " ";
      }
      const std::string id = std::to_string(group) + "-" + std::to_string(i);
      lines.push_back(nlohmann::json{{"id", id}, {"text", text}}.dump());
    }
  }
  std::ranges::shuffle(lines, random);
  // A document that is removed as a duplicate and still has a domain.
  nlohmann::json copy = nlohmann::json::parse(lines[5]);
  copy["id"] = GroupOf(copy["id"]) + "-copy";
  lines.push_back(copy.dump());
  std::ofstream file(path);
  for (const std::string& line : lines) file << line << "\n";
}

// Returns the expected group of a document.
std::string NameOf(const std::string& id) { return "cluster-" + GroupOf(id); }

double Cosine(const std::vector<double>& a, const std::vector<double>& b) {
  double product = 0, a_square = 0, b_square = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    product += a[i] * b[i];
    a_square += a[i] * a[i];
    b_square += b[i] * b[i];
  }
  return product / std::sqrt(a_square * b_square);
}

class DomainClustersTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    corpus_ = new fs::path(NewDirectory() / "unlabeled.jsonl");
    WriteGroups(*corpus_);
    home_ = new Home();
    auto result = home_->Run(Spec());
    ASSERT_OK(result);
    result_ = new v1::JobResult(*std::move(result));
  }
  static void TearDownTestSuite() {
    delete result_;
    delete home_;
    delete corpus_;
  }

  static v1::CorpusSpec Spec(int num_clusters = 4) {
    v1::CorpusSpec spec = SmallSpec(*corpus_);
    spec.mutable_embedder()->set_dimension(256);
    spec.mutable_embedder()->set_max_ngram(1);  // random words have no pairs in common
    spec.mutable_pack()->set_domain_clusters(num_clusters);
    return spec;
  }

  static std::string Domains(const v1::JobResult& result) {
    std::string all;
    for (const v1::DomainSummary& domain : result.domains())
      all += domain.ShortDebugString() + "\n";
    return all;
  }

  // A finished job as the service returns it, and its explanation.
  static absl::StatusOr<JobExplanation> Explain(const v1::CorpusSpec& spec, StageStore* store) {
    v1::Job job;
    job.set_id("job-000001");
    *job.mutable_spec() = *ResolveCorpusSpec(spec);
    const JobHooks hooks = {.report =
                                [&](const v1::StageProgress& progress) {
                                  if (progress.complete()) *job.add_stages() = progress;
                                },
                            .stop = [] { return false; }};
    EXPECT_OK(RunJob(job.spec(), store, hooks));
    job.set_state(v1::JOB_SUCCEEDED);
    return JobExplanation::Open(job, *store);
  }

  static fs::path* corpus_;
  static Home* home_;
  static v1::JobResult* result_;
};

fs::path* DomainClustersTest::corpus_ = nullptr;
Home* DomainClustersTest::home_ = nullptr;
v1::JobResult* DomainClustersTest::result_ = nullptr;

TEST_F(DomainClustersTest, EqualTheGroupsOfTheTextsLargestFirst) {
  StageStore store(NewDirectory() / "store");
  const auto explanation = Explain(Spec(), &store);
  ASSERT_OK(explanation);
  std::ifstream corpus(*corpus_);
  for (std::string line; std::getline(corpus, line);) {
    const std::string id = nlohmann::json::parse(line)["id"];
    const auto document = explanation->Document(id, 0);
    ASSERT_OK(document);
    EXPECT_EQ(document->domain(), NameOf(id));
    for (const v1::DocumentSpan& span : document->spans()) {
      EXPECT_EQ(span.domain(), document->domain());
      const auto instance = explanation->Instance(span.instance(), 0);
      ASSERT_OK(instance);
      for (const v1::DocumentSpan& other : instance->spans()) {
        EXPECT_EQ(other.domain(), NameOf(other.document()));
      }
    }
  }
}

// Computes the summaries from the explanation and the stored vector of each document.
TEST_F(DomainClustersTest, HaveSummariesThatAgreeWithTheDocuments) {
  StageStore store(NewDirectory() / "store");
  const auto explanation = Explain(Spec(), &store);
  ASSERT_OK(explanation);
  const auto embeddings = NpyArray<float>::Open(home_->StageDirectory("embed") / "embeddings.npy");
  ASSERT_OK(embeddings);
  std::map<std::string, v1::DomainSummary> expected;
  std::map<std::string, std::vector<double>> sums;  // for vectors times tokens; "" has all
  std::ifstream corpus(*corpus_);
  for (std::string line; std::getline(corpus, line);) {
    const auto document = explanation->Document(nlohmann::json::parse(line)["id"], 0);
    ASSERT_OK(document);
    v1::DomainSummary& domain = expected[document->domain()];
    const int64_t tokens = document->num_tokens() + 1;
    if (document->fate() == v1::DOCUMENT_TRAINED_ON) {
      domain.set_num_documents(domain.num_documents() + 1);
      domain.set_num_tokens(domain.num_tokens() + tokens);
      for (const std::string& name : {document->domain(), std::string()}) {
        sums[name].resize(256);
        for (size_t i = 0; i < 256; ++i) {
          const float value = embeddings->row(document->document_number())[i];
          sums[name][i] += static_cast<double>(tokens) * value;
        }
      }
    } else if (document->fate() == v1::DOCUMENT_HELD_OUT) {
      domain.set_num_heldout_documents(domain.num_heldout_documents() + 1);
      domain.set_num_heldout_tokens(domain.num_heldout_tokens() + tokens);
      domain.set_num_heldout_sources(domain.num_heldout_sources() + 1);
    }
  }
  ASSERT_EQ(result_->domains_size(), 4);
  int64_t num_documents = 0, num_tokens = 0, num_heldout = 0;
  for (const v1::DomainSummary& domain : result_->domains()) {
    const v1::DomainSummary& wanted = expected[domain.name()];
    EXPECT_EQ(domain.num_documents(), wanted.num_documents());
    EXPECT_EQ(domain.num_tokens(), wanted.num_tokens());
    EXPECT_EQ(domain.num_heldout_documents(), wanted.num_heldout_documents());
    EXPECT_EQ(domain.num_heldout_tokens(), wanted.num_heldout_tokens());
    EXPECT_EQ(domain.num_heldout_sources(), wanted.num_heldout_sources());
    EXPECT_NEAR(domain.similarity(), Cosine(sums[domain.name()], sums[""]), 1e-9);
    num_documents += domain.num_documents();
    num_tokens += domain.num_tokens();
    num_heldout += domain.num_heldout_documents();
  }
  EXPECT_EQ(num_documents, result_->num_documents());
  EXPECT_EQ(num_tokens, result_->num_tokens());
  EXPECT_EQ(num_heldout, result_->num_heldout());
  EXPECT_GT(result_->domains(0).similarity(), result_->domains(3).similarity())
      << "the largest domain is the most similar to the whole";
}

TEST_F(DomainClustersTest, HaveHeldOutFiles) {
  const fs::path dataset = result_->dataset_dir();
  const auto json = nlohmann::json::parse(*ReadFile(dataset / "dataset.json"));
  std::vector<std::string> with_windows;
  for (const v1::DomainSummary& domain : result_->domains()) {
    if (domain.num_heldout_documents() == 0) continue;
    with_windows.push_back(domain.name());
    const auto windows = IndexedDataset::Open(dataset / "heldout" / domain.name());
    ASSERT_OK(windows);
    int64_t num_tokens = 0;
    for (int64_t i = 0; i < windows->num_sequences(); ++i) {
      num_tokens += windows->sequence_length(i);
    }
    EXPECT_EQ(num_tokens, domain.num_heldout_tokens());
  }
  EXPECT_EQ(json["domains"], with_windows);
  EXPECT_EQ(json["domain_clusters"], 4);
  const auto report = nlohmann::json::parse(*ReadFile(dataset / "ordering_report.json"));
  EXPECT_GT(report["domain_purity"], 0.7) << "with the clusters as domains";
  EXPECT_GT(report["domain_purity"], report["random_domain_purity"]);
}

TEST_F(DomainClustersTest, AreTheSameBytesForAnyNumberOfThreads) {
  for (const int threads : {1, 2, 3}) {
    v1::CorpusSpec spec = Spec();
    spec.set_num_threads(threads);
    Home home;
    ASSERT_OK(home.Run(spec));
    EXPECT_EQ(home.Contents(), home_->Contents()) << threads << " threads";
  }
}

TEST_F(DomainClustersTest, AreTheSameForEveryOrder) {
  Home home(*home_);
  for (const v1::OrderMode order : {v1::RANDOM, v1::SOURCE}) {
    v1::CorpusSpec spec = Spec();
    spec.set_order(order);
    const auto result = home.Run(spec);
    ASSERT_OK(result);
    EXPECT_THAT(home.made(), ElementsAre("order", "pack"));
    EXPECT_EQ(Domains(*result), Domains(*result_));
  }
}

TEST_F(DomainClustersTest, RepeatOnlyPackAndAreReportedWhenReused) {
  Home home(*home_);
  for (const int num_clusters : {0, 2, 12}) {
    const auto result = home.Run(Spec(num_clusters));
    ASSERT_OK(result);
    EXPECT_THAT(home.made(), ElementsAre("pack"));
    const auto names = [&] {
      std::vector<std::string> all;
      for (const v1::DomainSummary& domain : result->domains()) all.push_back(domain.name());
      return all;
    }();
    EXPECT_TRUE(std::ranges::is_sorted(names));
    EXPECT_EQ(names.size(), num_clusters == 0 ? 1u : static_cast<size_t>(num_clusters));
    EXPECT_EQ(fs::exists(fs::path(result->dataset_dir()) / "document_domains.npy"),
              num_clusters > 0);
    EXPECT_EQ(names.back(), num_clusters == 0   ? "unlabeled"  // what the file is called
                            : num_clusters == 2 ? "cluster-1"
                                                : "cluster-9");
    const auto again = home.Run(Spec(num_clusters));
    ASSERT_OK(again);
    EXPECT_THAT(home.made(), testing::IsEmpty());
    EXPECT_EQ(again->SerializeAsString(), result->SerializeAsString());
  }
}

TEST_F(DomainClustersTest, ReachTheSameBytesWhereverPackIsStopped) {
  Home home(*home_, {.chunk_bytes = 3000});
  fs::remove_all(home.StageDirectory("pack"));
  int attempts = 0;
  absl::Status status = absl::CancelledError();
  while (absl::IsCancelled(status)) {
    home.StopAtReport(14 + 5 * attempts++);  // after the stages that are reused
    status = home.Run(Spec()).status();
  }
  EXPECT_OK(status);
  EXPECT_GT(attempts, 3);
  EXPECT_EQ(home.Contents(), home_->Contents());
}

TEST_F(DomainClustersTest, AreRefusedWhenMoreThanDocuments) {
  const fs::path few = NewDirectory() / "few.jsonl";
  std::ofstream file(few);
  for (int i = 0; i < 6; ++i) {
    std::string text;
    for (uint64_t word = 0; word < 60; ++word) text += Word(0, 97 * word + 13 * i) + " ";
    file << nlohmann::json{{"text", text}}.dump() << "\n";
  }
  file.close();
  v1::CorpusSpec spec = Spec(20);
  spec.set_paths(0, few.string());
  const auto result = Home().Run(spec);
  EXPECT_FAILS(result, absl::StatusCode::kFailedPrecondition, "pack.domain_clusters", "20 clusters",
               "training documents");
  for (const int num_clusters : {-1, 65}) {
    EXPECT_FAILS(ResolveCorpusSpec(Spec(num_clusters)), absl::StatusCode::kInvalidArgument,
                 "pack.domain_clusters", std::to_string(num_clusters), "0 to 64");
  }
}

// An explanation validates everything that it reads.
TEST_F(DomainClustersTest, AreNotExplainedFromInconsistentFiles) {
  const fs::path root = NewDirectory();
  StageStore store(root / "store");
  ASSERT_OK(Explain(Spec(), &store));
  fs::path dataset;
  for (const auto& entry : fs::directory_iterator(root / "store")) {
    if (entry.path().filename().string().starts_with("pack-")) dataset = entry.path();
  }
  const auto documents = DocumentStore::Open(home_->StageDirectory("ingest"));
  ASSERT_OK(documents);
  const v1::CorpusSpec resolved = *ResolveCorpusSpec(Spec());
  EXPECT_OK(DomainsOfDataset(resolved, *documents, dataset));
  for (const int64_t size : {documents->size() - 1, documents->size()}) {
    for (const int32_t domain : {-1, 4}) {
      const std::vector<int32_t> numbers(static_cast<size_t>(size), domain);
      const std::vector<int64_t> shape = {size};
      ASSERT_OK(WriteNpy<int32_t>(dataset / "document_domains.npy", shape, numbers));
      EXPECT_FAILS(DomainsOfDataset(resolved, *documents, dataset), absl::StatusCode::kDataLoss,
                   "document_domains.npy");
    }
  }
}

}  // namespace domain_clusters_test
}  // namespace braid

#include "cli/reproduce/corpus_check.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace braid {
namespace {

const CorpusNeeds kNeeds = {.tokens_of_run = 983040};

// `count` documents of `bytes` in each domain.
CorpusSummary Corpus(const std::vector<std::string>& domains, int64_t count, int64_t bytes) {
  CorpusSummary corpus;
  for (const std::string& name : domains) {
    corpus.domains.push_back({name, count, count * bytes});
    corpus.num_bytes += count * bytes;
    if (bytes > LongDocumentBytes(kNeeds)) corpus.num_long_bytes += count * bytes;
  }
  return corpus;
}

std::vector<FindingKind> KindsOf(const std::vector<CorpusFinding>& findings) {
  std::vector<FindingKind> kinds;
  for (const CorpusFinding& finding : findings) kinds.push_back(finding.kind);
  return kinds;
}

TEST(CorpusCheckTest, ASuitableCorpusHasNoFinding) {
  EXPECT_TRUE(CheckCorpus(Corpus({"a", "b", "c"}, 4000, 450), kNeeds).empty());
}

TEST(CorpusCheckTest, SaysHowMuchIsNeeded) {
  const auto findings = CheckCorpus(Corpus({"a", "b"}, 100, 450), kNeeds);
  ASSERT_FALSE(findings.empty());
  EXPECT_EQ(findings[0].kind, FindingKind::kTooSmall);
  const absl::Status status = CorpusStatus(findings);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("got 90 kB of text, needed at least 1.3 MB"), std::string::npos)
      << status;
}

TEST(CorpusCheckTest, TheNeededSizeIsEnough) {
  CorpusNeeds needs = kNeeds;
  needs.tokens_of_run = 5734400;
  const auto fatal = [&](int64_t documents) {
    return !CorpusStatus(CheckCorpus(Corpus({"a", "b"}, documents, 500), needs)).ok();
  };
  // 5,734,400 / 4 passes / 0.97 * 2.3 bytes a token.
  EXPECT_TRUE(fatal(3399));
  EXPECT_FALSE(fatal(3400));
}

TEST(CorpusCheckTest, TellsHowOftenTextIsRepeated) {
  const auto findings = CheckCorpus(Corpus({"a", "b"}, 2000, 450), kNeeds);
  ASSERT_EQ(KindsOf(findings).front(), FindingKind::kRepeats);
  EXPECT_FALSE(findings[0].fatal);
  EXPECT_NE(findings[0].message.find("sees the corpus 1.3 times"), std::string::npos)
      << findings[0].message;
}

TEST(CorpusCheckTest, NamesDomainsWithTooLittleHeldoutText) {
  CorpusSummary corpus = Corpus({"a", "b"}, 6000, 450);
  corpus.domains.push_back({"tiny", 10, 4500});
  const auto findings = CheckCorpus(corpus, kNeeds);
  ASSERT_EQ(KindsOf(findings), std::vector{FindingKind::kFewHeldout});
  EXPECT_NE(findings[0].message.find("of its own in tiny:"), std::string::npos);
}

TEST(CorpusCheckTest, OneLabelledDomainIsClustered) {
  const auto findings = CheckCorpus(Corpus({"law"}, 9000, 450), kNeeds);
  EXPECT_EQ(KindsOf(findings), (std::vector{FindingKind::kOneDomain, FindingKind::kClustered}));
  EXPECT_NE(findings[0].message.find("\"law\""), std::string::npos);
}

TEST(CorpusCheckTest, WithoutLabelsDomainsAreClusters) {
  CorpusSummary corpus = Corpus({"corpus"}, 9000, 450);
  corpus.domain_source = DomainSource::kPaths;
  EXPECT_EQ(ChooseDomainSource(corpus), DomainSource::kClusters);
  EXPECT_EQ(KindsOf(CheckCorpus(corpus, kNeeds)), std::vector{FindingKind::kClustered});
  corpus.domains.push_back({"second file", 1, 1});
  EXPECT_EQ(ChooseDomainSource(corpus), DomainSource::kPaths);
}

TEST(CorpusCheckTest, LongDocumentsAreExplainedAndCuttingIsOffered) {
  const CorpusSummary corpus = Corpus({"a", "b"}, 500, 12000);
  const auto findings = CheckCorpus(corpus, kNeeds);
  ASSERT_EQ(KindsOf(findings), std::vector{FindingKind::kLongDocuments});
  EXPECT_NE(findings[0].message.find("similarity order could not matter"), std::string::npos);
  EXPECT_NE(findings[0].message.find("--split-bytes 450 cuts them"), std::string::npos);
  CorpusNeeds cut = kNeeds;
  cut.split_bytes = 450;
  EXPECT_NE(CheckCorpus(corpus, cut)[0].message.find("are cut at paragraph and line ends to 450"),
            std::string::npos);
}

TEST(CorpusCheckTest, LongDocumentsAreCountedByTheirText) {
  CorpusSummary corpus = Corpus({"a", "b"}, 4000, 450);
  corpus.num_long_bytes = corpus.num_bytes / 4;
  EXPECT_TRUE(CheckCorpus(corpus, kNeeds).empty());
  ++corpus.num_long_bytes;
  EXPECT_EQ(KindsOf(CheckCorpus(corpus, kNeeds)), std::vector{FindingKind::kLongDocuments});
  EXPECT_EQ(LongDocumentBytes(kNeeds), 588);
}

TEST(CorpusCheckTest, ADescriptionIsTakenOver) {
  v1::CorpusDescription description;
  v1::CorpusDomain& domain = *description.add_domains();
  domain.set_name("law");
  domain.set_num_documents(3);
  domain.set_num_bytes(70);
  description.set_domain_source(v1::DOMAIN_FROM_PATH);
  description.set_num_bytes(70);
  description.set_num_long_bytes(40);
  const CorpusSummary corpus = CorpusSummaryOf(description);
  ASSERT_EQ(corpus.domains.size(), 1);
  EXPECT_EQ(corpus.domains[0].name, "law");
  EXPECT_EQ(corpus.domains[0].num_documents, 3);
  EXPECT_EQ(corpus.domains[0].num_bytes, 70);
  EXPECT_EQ(corpus.domain_source, DomainSource::kPaths);
  EXPECT_EQ(corpus.num_bytes, 70);
  EXPECT_EQ(corpus.num_long_bytes, 40);
}

}  // namespace
}  // namespace braid

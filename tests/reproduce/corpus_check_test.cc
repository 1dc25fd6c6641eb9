#include "reproduce/corpus_check.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace braid {
namespace corpus_check_test {

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

TEST(CorpusCheckTest, ReportsTheRequiredSize) {
  const auto findings = CheckCorpus(Corpus({"a", "b"}, 100, 450), kNeeds);
  ASSERT_FALSE(findings.empty());
  EXPECT_EQ(findings[0].kind, FindingKind::kTooSmall);
  const absl::Status status = CorpusStatus(findings);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("got 90 kB of text, expected at least 1.3 MB"), std::string::npos)
      << status;
  // With any number of steps, 90 kB have too few held-out windows.
  EXPECT_TRUE(findings[0].message.ends_with("; add text")) << status;
  CorpusNeeds longer = kNeeds;
  longer.tokens_of_run *= 16;
  const auto too_long = CheckCorpus(Corpus({"a", "b"}, 2000, 450), longer);
  EXPECT_TRUE(findings[0].fatal && too_long[0].fatal);
  EXPECT_NE(too_long[0].message.find("; add text, or train less with --quick or --steps"),
            std::string::npos)
      << too_long[0].message;
}

TEST(CorpusCheckTest, TheRequiredSizeIsEnough) {
  CorpusNeeds needs = kNeeds;
  needs.tokens_of_run = 5734400;
  const auto fatal = [&](int64_t documents) {
    return !CorpusStatus(CheckCorpus(Corpus({"a", "b"}, documents, 500), needs)).ok();
  };
  // 5,734,400 / 4 passes / 0.97 * 2.3 bytes a token.
  EXPECT_TRUE(fatal(3399));
  EXPECT_FALSE(fatal(3400));
}

TEST(CorpusCheckTest, ReportsHowOftenTextIsRepeated) {
  const auto findings = CheckCorpus(Corpus({"a", "b"}, 2000, 450), kNeeds);
  ASSERT_EQ(KindsOf(findings).front(), FindingKind::kRepeats);
  EXPECT_FALSE(findings[0].fatal);
  EXPECT_NE(findings[0].message.find("see the corpus 1.3 times"), std::string::npos)
      << findings[0].message;
}

TEST(CorpusCheckTest, CountsWindowsAsThePackerCutsThem) {
  for (int64_t tokens = 0; tokens < 40; ++tokens) {
    int64_t windows = 0;
    for (int64_t left = tokens; left >= 2; left -= 8) ++windows;
    EXPECT_EQ(HeldoutWindows(tokens, 7), windows) << tokens;
  }
}

TEST(CorpusCheckTest, NamesDomainsWithTooLittleHeldoutText) {
  const int64_t enough = 7 * 513 + 2;  // 8 windows
  const auto notes = HeldoutNotes({{"fine", 9, 1, enough, 20},
                                   {"one short", 9, 1, enough - 1, 500},
                                   {"few files", 9, 1, enough, 19},
                                   {"cluster-7", 9, 1, 0, 0}},
                                  512);
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_NE(notes[0].find("under 8 windows of 512 tokens: one short (7), cluster-7 (0)"),
            std::string::npos)
      << notes[0];
  EXPECT_NE(notes[1].find("under 20 source documents"), std::string::npos) << notes[1];
  EXPECT_TRUE(notes[1].ends_with(": few files (19)")) << notes[1];
  EXPECT_TRUE(HeldoutNotes({{"fine", 9, 1, enough, 20}}, 512).empty());
}

TEST(CorpusCheckTest, NamesSixOfManyDomains) {
  std::vector<DomainProfile> domains;
  for (int i = 0; i < 99; ++i) domains.push_back({"d" + std::to_string(i), 9, 1, 600, 3});
  const auto notes = HeldoutNotes(domains, 512);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_TRUE(notes[0].ends_with("d4 (2), d5 (2) and 93 more")) << notes[0];
}

TEST(CorpusCheckTest, OneLabeledDomainIsClustered) {
  const auto findings = CheckCorpus(Corpus({"law"}, 9000, 450), kNeeds);
  EXPECT_EQ(KindsOf(findings), (std::vector{FindingKind::kOneDomain, FindingKind::kClustered}));
  EXPECT_NE(findings[0].message.find("\"law\""), std::string::npos);
  // The clusters are compared instead.
  EXPECT_EQ(findings[0].message.find("cannot be measured"), std::string::npos);
}

TEST(CorpusCheckTest, NamesNoClaimsSinceExperimentsHaveTheirOwn) {
  for (const CorpusSummary& corpus :
       {Corpus({"law"}, 500, 12000), Corpus({"a", "b"}, 2000, 450), Corpus({"a"}, 100, 450)}) {
    const auto findings = CheckCorpus(corpus, kNeeds);
    EXPECT_FALSE(findings.empty());
    for (const CorpusFinding& finding : findings) {
      EXPECT_EQ(finding.message.find("claim"), std::string::npos) << finding.message;
    }
  }
}

TEST(CorpusCheckTest, WithoutLabelsDomainsAreClusters) {
  CorpusSummary corpus = Corpus({"corpus"}, 9000, 450);
  corpus.domain_source = DomainSource::kPaths;
  EXPECT_EQ(ChooseDomainSource(corpus, kNeeds), DomainSource::kClusters);
  EXPECT_EQ(KindsOf(CheckCorpus(corpus, kNeeds)), std::vector{FindingKind::kClustered});
  corpus.domains.push_back({"second file", 1, 1});
  EXPECT_EQ(ChooseDomainSource(corpus, kNeeds), DomainSource::kPaths);
}

// 8 windows of 512 tokens of 2.3 bytes, of 3 % held out.
TEST(CorpusCheckTest, ManySmallDirectoriesAreNotUsedAsDomains) {
  const int64_t enough = 314'027;
  ASSERT_EQ(static_cast<int64_t>(8 * 512 / 0.03 * 2.3), enough - 1);
  CorpusSummary corpus{.domain_source = DomainSource::kPaths, .num_bytes = 20 * enough - 10};
  for (int i = 0; i < 20; ++i) {
    corpus.domains.push_back({"d" + std::to_string(i), 700, i < 10 ? enough - 1 : enough});
  }
  EXPECT_EQ(ChooseDomainSource(corpus, kNeeds), DomainSource::kPaths) << "half of the text";
  --corpus.domains[10].num_bytes;
  --corpus.num_bytes;
  EXPECT_EQ(ChooseDomainSource(corpus, kNeeds), DomainSource::kClusters);
  const auto findings = CheckCorpus(corpus, kNeeds);
  ASSERT_EQ(KindsOf(findings), std::vector{FindingKind::kClustered});
  EXPECT_NE(findings[0].message.find("55 % of the text is in files or directories of under 314 kB"),
            std::string::npos)
      << findings[0].message;
  EXPECT_NE(findings[0].message.find("these 20 are not used as domains: domains are 8 clusters"),
            std::string::npos)
      << findings[0].message;
  corpus.domain_source = DomainSource::kLabels;
  EXPECT_EQ(ChooseDomainSource(corpus, kNeeds), DomainSource::kLabels) << "what records say stays";
}

TEST(CorpusCheckTest, AFewRecordsWithoutTheFieldAreAccepted) {
  v1::CorpusDescription description;
  description.set_domain_source(v1::DOMAIN_FROM_PATH);
  description.set_num_documents(100);
  for (const int labeled : {100, 99, 50}) {
    description.set_num_field_documents(labeled);
    EXPECT_EQ(CorpusSummaryOf(description).domain_source, DomainSource::kLabels) << labeled;
  }
  description.set_num_field_documents(49);
  EXPECT_EQ(CorpusSummaryOf(description).domain_source, DomainSource::kPaths);
}

TEST(CorpusCheckTest, ReportsLongDocumentsAndHowToCutThem) {
  const CorpusSummary corpus = Corpus({"a", "b"}, 500, 12000);
  const auto findings = CheckCorpus(corpus, kNeeds);
  ASSERT_EQ(KindsOf(findings), std::vector{FindingKind::kLongDocuments});
  EXPECT_NE(findings[0].message.find("the order of documents could have no effect"),
            std::string::npos);
  EXPECT_NE(findings[0].message.find("--split-bytes 450"), std::string::npos);
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

TEST(CorpusCheckTest, ConvertsADescription) {
  v1::CorpusDescription description;
  v1::CorpusDomain& domain = *description.add_domains();
  domain.set_name("law");
  domain.set_num_documents(3);
  domain.set_num_bytes(70);
  description.set_domain_source(v1::DOMAIN_FROM_PATH);
  description.set_num_documents(3);
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

}  // namespace corpus_check_test
}  // namespace braid

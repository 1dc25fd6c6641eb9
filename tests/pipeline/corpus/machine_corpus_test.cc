#include "pipeline/corpus/machine_corpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "base/atomic_file.h"
#include "pipeline/corpus/manual_page_text.h"
#include "tests/base/crafted_files.h"

namespace braid {
namespace machine_corpus_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<nlohmann::json> ReadRecords(const std::filesystem::path& path) {
  std::istringstream lines(*ReadFile(path));
  std::vector<nlohmann::json> records;
  for (std::string line; std::getline(lines, line);) records.push_back(nlohmann::json::parse(line));
  return records;
}

std::map<std::string, MachineCorpusDomain> ByName(const MachineCorpusSummary& summary) {
  std::map<std::string, MachineCorpusDomain> domains;
  for (const MachineCorpusDomain& domain : summary.domains) domains[domain.name] = domain;
  return domains;
}

// A small machine: plenty of Python, some of everything else.
void MakeMachine(const CraftedFiles& files) {
  for (int i = 0; i < 60; ++i) {
    files.Write("usr/lib/python3.11/m" + std::to_string(i) + ".py", RandomLines(100 + i, 3000));
  }
  for (int i = 0; i < 10; ++i) {
    const std::string n = std::to_string(i);
    files.Write("usr/include/c" + n + ".h", RandomLines(200 + i, 2000));
    files.Write("usr/include/x/cpp" + n + ".h", "\nnamespace x {\n" + RandomLines(300 + i, 2000));
    files.Write("usr/share/doc/p" + n + "/copyright", RandomLines(400 + i, 2000));
    files.Write("usr/share/doc/p" + n + "/changelog.Debian.gz", Gzip(RandomLines(500 + i, 2000)));
    files.Write("usr/share/doc/p" + n + "/README.md", RandomLines(600 + i, 2000));
    files.Write("usr/share/man/man1/t" + n + ".1.gz",
                Gzip(".SH NAME\nt \\- a tool\n.SH DESCRIPTION\n" + RandomLines(700 + i, 2000)));
  }
  files.Write("usr/share/doc/p0/page.html", RandomLines(1, 2000));
  files.Write("usr/include/latin1.h", "caf\xe9" + RandomLines(2, 2000));
  files.Write("usr/include/tiny.h", "#define TINY 1\n");
  files.Write("usr/include/copy.h", RandomLines(200, 2000));  // as c0.h
}

MachineCorpusOptions SmallOptions(const CraftedFiles& files) {
  MachineCorpusOptions options;
  options.root = files.directory();
  options.target_bytes = 100'000;
  options.min_bytes = 90'000;
  options.split_bytes = 400;
  return options;
}

TEST(MachineCorpusTest, BalancesDomainsAndKeepsTheRules) {
  const CraftedFiles files, out;
  MakeMachine(files);
  const auto path = out.directory() / "corpus.jsonl";
  const auto summary = GatherMachineCorpus(SmallOptions(files), path);
  ASSERT_TRUE(summary.ok()) << summary.status();
  const auto domains = ByName(*summary);
  EXPECT_EQ(domains.size(), 7u);
  EXPECT_LE(domains.at("python").num_bytes, 30'000);
  EXPECT_LE(summary->num_bytes, 100'000);
  EXPECT_GE(summary->num_bytes, 90'000);

  std::set<std::string> ids, texts;
  std::map<std::string, int64_t> bytes;
  for (const nlohmann::json& record : ReadRecords(path)) {
    const std::string text = record["text"];
    EXPECT_TRUE(ids.insert(record["id"]).second) << record["id"];
    EXPECT_TRUE(texts.insert(text).second) << "duplicate " << record["id"];
    EXPECT_LE(text.size(), 400u);
    EXPECT_TRUE(
        std::filesystem::exists(files.directory().string() + std::string(record["source"])));
    bytes[record["domain"]] += static_cast<int64_t>(text.size());
  }
  for (const auto& [name, domain] : domains) EXPECT_EQ(bytes[name], domain.num_bytes) << name;
  for (const char* skipped : {"html", "latin1", "tiny"}) {
    for (const std::string& id : ids) EXPECT_EQ(id.find(skipped), std::string::npos) << id;
  }
}

TEST(MachineCorpusTest, IsAFunctionOfTheMachineAndTheSeed) {
  const CraftedFiles files, out;
  MakeMachine(files);
  MachineCorpusOptions options = SmallOptions(files);
  const auto a = out.directory() / "a", b = out.directory() / "b", c = out.directory() / "c";
  ASSERT_TRUE(GatherMachineCorpus(options, a).ok());
  ASSERT_TRUE(GatherMachineCorpus(options, b).ok());
  options.seed = 1;
  ASSERT_TRUE(GatherMachineCorpus(options, c).ok());
  EXPECT_EQ(*ReadFile(a), *ReadFile(b));
  EXPECT_NE(*ReadFile(a), *ReadFile(c));
}

TEST(MachineCorpusTest, MixesDomainsThroughoutTheFile) {
  const CraftedFiles files, out;
  MakeMachine(files);
  const auto path = out.directory() / "corpus.jsonl";
  ASSERT_TRUE(GatherMachineCorpus(SmallOptions(files), path).ok());
  const std::vector<nlohmann::json> records = ReadRecords(path);
  std::set<std::string> early;
  for (size_t i = 0; i < records.size() / 3; ++i) early.insert(records[i]["domain"]);
  EXPECT_GE(early.size(), 5u);
}

TEST(MachineCorpusTest, ReadsPackageDescriptions) {
  const CraftedFiles files, out;
  std::string status;
  for (int i = 0; i < 5; ++i) {
    status += "Package: p" + std::to_string(i) + "\nStatus: ok\nDescription: tool " +
              std::to_string(i) + "\n " + std::string(220, 'd') + "\n .\n End.\nHomepage: h\n\n";
  }
  files.Write("var/lib/dpkg/status", status);
  MachineCorpusOptions options;
  options.root = files.directory();
  options.target_bytes = 4000;
  options.max_domain_share = 1;
  options.min_domains = 1;
  options.min_bytes = 1000;
  const auto path = out.directory() / "corpus.jsonl";
  ASSERT_TRUE(GatherMachineCorpus(options, path).ok());
  const std::vector<nlohmann::json> records = ReadRecords(path);
  ASSERT_EQ(records.size(), 5u);
  EXPECT_EQ(records[3]["text"], "p3 - tool 3\n" + std::string(220, 'd') + "\n\nEnd.\n");
}

TEST(MachineCorpusTest, SaysWhatIsMissing) {
  const CraftedFiles files, out;
  files.Write("usr/include/a.h", RandomLines(1, 5000));
  MachineCorpusOptions options = SmallOptions(files);
  const auto path = out.directory() / "corpus.jsonl";
  const absl::Status status = GatherMachineCorpus(options, path).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("1 domains"), HasSubstr("manual_pages: 0 (manpages-dev"),
                    HasSubstr("expected at least 5")));
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(ManualPageTextTest, RendersManMacros) {
  EXPECT_EQ(ManualPageText(".\\\" comment\n.TH LS 1 2023\n.SH NAME\nls \\- list \\fBall\\fR\n"
                           ".TP\n.BR \\-a \", \" \\-\\-all\nshow\\ dots \\(em \\*(C`x\\*(C'\n"
                           ".if n \\{\\\n.ll 72\nhidden\n.\\}\n.de XX\nhidden\n..\n.PP\nEnd\\c\n"),
            "LS(1)\n\nNAME\nls - list all\n\n-a, --all\nshow dots -- \"x\"\n\nEnd\n");
}

TEST(ManualPageTextTest, RendersMdocMacros) {
  EXPECT_EQ(ManualPageText(".Dt CAT 1\n.Sh NAME\n.Nm cat\n.Nd join files\n.Sh SYNOPSIS\n.Nm\n"
                           ".Op Fl n Ar count\n.Pp\nThe\n.Nm\ntool.\n"),
            "CAT(1)\n\nNAME\ncat\njoin files\n\nSYNOPSIS\ncat\n[-n count]\n\nThe\ncat\ntool.\n");
}

TEST(ManualPageTextTest, GivesNothingForAReference) {
  EXPECT_EQ(ManualPageText(".so man3/printf.3\n"), "");
}

}  // namespace machine_corpus_test
}  // namespace braid

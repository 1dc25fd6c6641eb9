#include "pipeline/corpus/corpus_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <map>

#include "absl/strings/str_cat.h"
#include "base/file_error.h"
#include "pipeline/corpus/record_reader.h"
#include "tests/base/crafted_files.h"

namespace braid {
namespace corpus_reader_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

struct Corpus {
  absl::Status status;
  std::vector<Document> documents;
  std::vector<Reject> rejects;
  int64_t num_records = 0;
  int64_t num_accepted = 0;
  int64_t bytes_read = 0;
  int64_t total_bytes = 0;

  std::vector<std::string> Ids() const {
    std::vector<std::string> ids;
    for (const Document& document : documents) ids.push_back(document.id);
    return ids;
  }
  std::map<std::string, int> Reasons() const {
    std::map<std::string, int> reasons;
    for (const Reject& reject : rejects) ++reasons[reject.reason];
    return reasons;
  }
  std::string message() const { return std::string(status.message()); }
};

Corpus Read(const std::vector<std::string>& paths, const v1::IngestConfig& config = {}) {
  Corpus corpus;
  auto reader = CorpusReader::Open(paths, config);
  corpus.status = reader.status();
  while (corpus.status.ok()) {
    Document document;
    const absl::StatusOr<CorpusStep> step = (*reader)->Next(&document, &corpus.rejects);
    corpus.status = step.status();
    if (!step.ok() || *step == CorpusStep::kEnd) break;
    if (*step == CorpusStep::kDocument) corpus.documents.push_back(document);
  }
  if (!reader.ok()) return corpus;
  corpus.num_records = (*reader)->num_records();
  corpus.num_accepted = (*reader)->num_accepted();
  corpus.bytes_read = (*reader)->bytes_read();
  corpus.total_bytes = (*reader)->total_bytes();
  return corpus;
}

TEST(CorpusReaderTest, ReadsJsonLinesPlainAndCompressed) {
  const CraftedFiles files;
  std::string lines;
  for (int i = 0; i < 500; ++i) {
    lines += absl::StrCat("{\"id\": \"d", i, "\", \"text\": \"text \\u00e9 ", i,
                          "\\n\", \"domain\": \"d", i % 3, "\"}\n");
  }
  const std::string half = lines.substr(0, lines.size() / 2 + 5);  // cuts a record
  const std::string rest = lines.substr(half.size());
  for (const auto& [name, bytes] :
       std::map<std::string, std::string>{{"a.jsonl", lines},
                                          {"a.json", lines},
                                          {"a.ndjson", lines.substr(0, lines.size() - 1)},
                                          {"a.jsonl.gz", Gzip(half) + Gzip(rest)},
                                          {"a.jsonl.zst", Zstd(half) + Zstd(rest)}}) {
    const Corpus corpus = Read({files.Write(name, bytes).string()});
    ASSERT_TRUE(corpus.status.ok()) << name << corpus.status;
    ASSERT_EQ(corpus.documents.size(), 500u) << name;
    EXPECT_EQ(corpus.documents[7].id, "d7");
    EXPECT_EQ(corpus.documents[7].text, "text é 7\n");
    EXPECT_EQ(corpus.documents[7].domain, "d1");
    const size_t start = static_cast<size_t>(corpus.documents[7].offset);
    EXPECT_EQ(lines.substr(start, 12), "{\"id\": \"d7\",");
    EXPECT_EQ(corpus.bytes_read, corpus.total_bytes);
    EXPECT_EQ(corpus.total_bytes, static_cast<int64_t>(bytes.size()));
  }
}

TEST(CorpusReaderTest, CountsEveryBadRecordAndContinues) {
  const CraftedFiles files;
  v1::IngestConfig config;
  config.set_max_document_bytes(1000);
  const std::vector<std::string> lines = {
      R"({"id": "a", "text": "good"})",
      R"({"id": "b", "text": "cut)",
      R"({"id": "c", "text": "later bad value", "n": tru})",
      R"(["text"])",
      R"("text")",
      R"({"id": "d"})",
      R"({"id": "e", "text": 7})",
      R"({"id": "f", "text": ""})",
      R"({"id": "g", "text": " \n\t"})",
      R"({"id": "a", "text": "again"})",
      "{\"id\": \"h\", \"text\": \"\xff\xfe\"}",
      R"({"id": "i", "text": "\ud800 half a pair"})",
      absl::StrCat(R"({"id": "j", "text": ")", std::string(1001, 'x'), "\"}"),
      absl::StrCat(R"({"id": "k", "text": ")", std::string(3 << 20, 'x'), "\"}"),
      "",
      R"({"id": "l", "text": "good"}{"id": "m", "text": "glued"})",
      R"({"id": "z", "text": "good too"})"};
  std::string bytes;
  for (const std::string& line : lines) bytes += line + "\r\n";
  const Corpus corpus = Read({files.Write("a.jsonl", bytes).string()}, config);
  ASSERT_TRUE(corpus.status.ok()) << corpus.status;
  EXPECT_THAT(corpus.Ids(), ElementsAre("a", "z"));
  EXPECT_EQ(corpus.num_records, 16);
  EXPECT_EQ(corpus.num_accepted, 2);
  EXPECT_EQ(corpus.rejects[0].offset, static_cast<int64_t>(lines[0].size() + 2));
  const std::map<std::string, int> reasons = corpus.Reasons();
  EXPECT_EQ(reasons.at("not an object"), 2);
  EXPECT_EQ(reasons.at("missing text field"), 2);
  EXPECT_EQ(reasons.at("empty"), 2);
  EXPECT_EQ(reasons.at("duplicate id"), 1);
  EXPECT_EQ(reasons.at("too long"), 2);
  EXPECT_EQ(reasons.at("invalid json") + reasons.at("invalid utf-8"), 5);
  EXPECT_GE(reasons.at("invalid json"), 3);
  EXPECT_GE(reasons.at("invalid utf-8"), 1);
}

TEST(CorpusReaderTest, FindsTextIdAndDomain) {
  const CraftedFiles files;
  const auto wiki = files.Write("wiki.jsonl.gz", Gzip("{\"raw_content\": \"x\", \"text_\": 1}\n"));
  const auto books = files.Write("books.jsonl", "{\"content\": \"y\", \"id\": 12}\n");
  const Corpus corpus = Read({wiki.string(), books.string()});
  ASSERT_EQ(corpus.documents.size(), 2u) << corpus.status;
  EXPECT_EQ(corpus.documents[0].id, "wiki.jsonl.gz:0");
  EXPECT_EQ(corpus.documents[0].domain, "wiki");
  EXPECT_EQ(corpus.documents[1].id, "12");
  EXPECT_EQ(corpus.documents[1].domain, "books");

  v1::IngestConfig config;
  config.set_text_field("body");
  config.set_id_field("meta.key");
  config.set_domain_field("meta.set name");
  const auto nested = files.Write(
      "n.jsonl", "{\"body\": \"z\", \"meta\": {\"key\": \"k\", \"set name\": \"../a b/C++\"}}\n");
  const Corpus named = Read({nested.string()}, config);
  ASSERT_EQ(named.documents.size(), 1u) << named.status;
  EXPECT_EQ(named.documents[0].id, "k");
  EXPECT_EQ(named.documents[0].domain, "_._a_b_C++");
}

TEST(CorpusReaderTest, ReportsAWrongTextFieldByName) {
  const CraftedFiles files;
  const std::string path = files.Write("a.jsonl", "{\"id\": \"1\", \"text\": \"t\"}\n").string();
  v1::IngestConfig config;
  config.set_text_field("txet");
  const Corpus corpus = Read({path}, config);
  EXPECT_EQ(corpus.status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(corpus.message(),
              AllOf(HasSubstr(path), HasSubstr("\"txet\""), HasSubstr("\"id\", \"text\""),
                    HasSubstr("did you mean \"text\"?")));
  const std::string other = files.Write("b.jsonl", "{\"body\": \"t\"}\n").string();
  EXPECT_THAT(Read({other}).message(), AllOf(HasSubstr("\"raw_content\""), HasSubstr("\"body\""),
                                             HasSubstr("set ingest.text_field (--text-field)")));
}

TEST(CorpusReaderTest, ReadsDirectoriesInSortedOrder) {
  const CraftedFiles files;
  files.Write("c/zeta/b.txt", "b");
  files.Write("c/alpha/deep/a.md",
              "\xEF\xBB\xBF"
              "a");
  files.Write("c/alpha/code.py.gz", Gzip("code"));
  files.Write("c/top.txt", "top");
  files.Write("c/shard.jsonl", "{\"text\": \"one\"}\n{\"text\": \"two\"}\n");
  files.Write("c/photo.png", std::string("\x89PNG\0\1", 6));
  files.Write("c/broken.gz", Gzip("text").substr(0, 12));
  files.Write("c/latin1.txt", "caf\xe9");
  files.Write("c/empty.txt", "");
  files.Write("c/.git/config", "hidden");
  const Corpus corpus = Read({(files.directory() / "c").string() + "/"});
  ASSERT_TRUE(corpus.status.ok()) << corpus.status;
  EXPECT_THAT(corpus.Ids(), ElementsAre("alpha/code.py.gz", "alpha/deep/a.md", "shard.jsonl:0",
                                        "shard.jsonl:16", "top.txt", "zeta/b.txt"));
  EXPECT_EQ(corpus.documents[0].domain, "alpha");
  EXPECT_EQ(corpus.documents[0].text, "code");
  EXPECT_EQ(corpus.documents[1].domain, "alpha");
  EXPECT_EQ(corpus.documents[1].text, "a");
  EXPECT_EQ(corpus.documents[4].domain, "c");
  EXPECT_THAT(corpus.Reasons(),
              UnorderedElementsAre(Pair("binary", 1), Pair("damaged", 1), Pair("invalid utf-8", 1),
                                   Pair("empty", 1), Pair("hidden", 1)));
  EXPECT_EQ(corpus.num_records, 11);
  EXPECT_EQ(corpus.num_accepted, 6);
}

TEST(CorpusReaderTest, ReadsExtensionsInAnyLetterCase) {
  const CraftedFiles files;
  const std::string line = "{\"text\": \"one\"}\n";
  std::vector<std::string> list;
  for (const auto& [name, bytes] :
       std::vector<std::pair<std::string, std::string>>{{"a.JSONL", line},
                                                        {"b.JSONL.GZ", Gzip(line)},
                                                        {"c.Json.Gz", Gzip(line)},
                                                        {"d.jsonl.zstd", Zstd(line)},
                                                        {"e.NDJSON.ZSTD", Zstd(line)},
                                                        {"f.jsonl.Zst", Zstd(line)},
                                                        {"g.TXT", "one"},
                                                        {"h.txt.ZST", Zstd("one")}}) {
    list.push_back(files.Write("c/" + name, bytes).string());
  }
  // A directory that mixes kinds, and the same files as a list.
  for (const auto& paths : {list, {(files.directory() / "c").string()}}) {
    const Corpus corpus = Read(paths);
    ASSERT_TRUE(corpus.status.ok()) << corpus.status;
    EXPECT_THAT(corpus.rejects, ElementsAre());
    EXPECT_THAT(corpus.Ids(),
                ElementsAre("a.JSONL:0", "b.JSONL.GZ:0", "c.Json.Gz:0", "d.jsonl.zstd:0",
                            "e.NDJSON.ZSTD:0", "f.jsonl.Zst:0", "g.TXT", "h.txt.ZST"));
    for (const Document& document : corpus.documents) EXPECT_EQ(document.text, "one");
  }
  const Corpus bare = Read({files.Write("x.jsonl.ZSTD", line).string()});
  EXPECT_THAT(bare.rejects, testing::SizeIs(1)) << "not compressed";
}

TEST(CorpusReaderTest, DistinguishesFilesOfEqualName) {
  const CraftedFiles files;
  const auto a = files.Write("a/x.txt", "one"), b = files.Write("b/x.txt", "two");
  const Corpus corpus = Read({a.string(), b.string()});
  EXPECT_THAT(corpus.Ids(), ElementsAre(a.string(), b.string()));
  EXPECT_EQ(corpus.documents[0].domain, "x");
}

TEST(CorpusReaderTest, ReadsAFileThatSeveralPathsNameOnce) {
  const CraftedFiles files;
  const std::string lines = files.Write("c/sub/a.jsonl", "{\"text\": \"one\"}\n").string();
  files.Write("c/b.txt", "two");
  const std::string directory = (files.directory() / "c").string();
  const Corpus first = Read({lines, directory, lines});
  ASSERT_TRUE(first.status.ok()) << first.status;
  EXPECT_THAT(first.Ids(), ElementsAre("a.jsonl:0", "b.txt"));
  EXPECT_THAT(first.Reasons(), UnorderedElementsAre(Pair("repeated file", 2)));
  const Corpus last = Read({directory, lines});
  EXPECT_THAT(last.Ids(), ElementsAre("b.txt", "sub/a.jsonl:0"));
  EXPECT_THAT(last.Reasons(), UnorderedElementsAre(Pair("repeated file", 1)));
}

TEST(CorpusReaderTest, SplitsLongDocuments) {
  const CraftedFiles files;
  v1::IngestConfig config;
  config.set_split_bytes(16);
  const auto path = files.Write("a.jsonl",
                                "{\"id\": \"a\", \"text\": \"one two\\nthree four five\"}\n"
                                "{\"id\": \"b\", \"text\": \"short\"}\n");
  const Corpus corpus = Read({path.string()}, config);
  EXPECT_THAT(corpus.Ids(), ElementsAre("a#0", "a#1", "b"));
  EXPECT_EQ(corpus.documents[0].text + corpus.documents[1].text, "one two\nthree four five");
  EXPECT_EQ(corpus.num_accepted, 2);
}

// The ids "a#0" and "b#1" belong to a part and to a record; the first record to have one keeps it.
TEST(CorpusReaderTest, PartsHaveIdsOfTheirOwn) {
  const CraftedFiles files;
  v1::IngestConfig config;
  config.set_split_bytes(16);
  const std::string lines =
      "{\"id\": \"a\", \"text\": \"one two\\nthree four five\"}\n"
      "{\"id\": \"b#1\", \"text\": \"short\"}\n"
      "{\"id\": \"a#0\", \"text\": \"short\"}\n"
      "{\"id\": \"b\", \"text\": \"one two\\nthree four five\"}\n"
      "{\"id\": \"b#0\", \"text\": \"short\"}\n";
  const std::vector<std::string> paths = {files.Write("a.jsonl", lines).string()};
  const Corpus corpus = Read(paths, config);
  EXPECT_THAT(corpus.Ids(), ElementsAre("a#0", "a#1", "b#1", "b#0"));
  EXPECT_THAT(corpus.Reasons(), ElementsAre(Pair("duplicate id", 2)));
  EXPECT_EQ(corpus.rejects[0].id, "a#0");
  EXPECT_EQ(corpus.rejects[1].id, "b");
  EXPECT_EQ(corpus.num_accepted, 3);
  // The same after the first record.
  const auto first = CorpusReader::Open(paths, config).value();
  Document document;
  std::vector<Reject> rejects;
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(first->Next(&document, &rejects).ok());
  const auto second = CorpusReader::Open(paths, config).value();
  ASSERT_TRUE(second
                  ->Resume(first->position().value(), first->TakeIdHashes(),
                           [] { return absl::OkStatus(); })
                  .ok());
  std::vector<std::string> ids;
  while (second->Next(&document, &rejects).value() == CorpusStep::kDocument) {
    ids.push_back(document.id);
  }
  EXPECT_THAT(ids, ElementsAre("b#1", "b#0"));
  EXPECT_EQ(rejects.size(), 2u);
}

TEST(CorpusReaderTest, ReportsPathsThatCannotBeRead) {
  const CraftedFiles files;
  const Corpus missing = Read({(files.directory() / "nothing.jsonl").string()});
  EXPECT_EQ(missing.status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(missing.message(),
              AllOf(HasSubstr("nothing.jsonl: no such file or directory; check the spelling"),
                    Not(HasSubstr("working directory"))));
  EXPECT_THAT(Read({"no-such/nothing.jsonl"}).message(),
              HasSubstr("no-such/nothing.jsonl: no such file or directory (working directory /"));
  const Corpus unknown = Read({files.Write("a.csv", "a,b").string()});
  EXPECT_EQ(unknown.status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(unknown.message(), AllOf(HasSubstr("\".csv\""), HasSubstr(".jsonl")));
  EXPECT_EQ(Read({}).status.code(), absl::StatusCode::kInvalidArgument);
  std::filesystem::create_directories(files.directory() / "empty");
  EXPECT_THAT(Read({(files.directory() / "empty").string()}).message(), HasSubstr("no files"));
}

TEST(CorpusReaderTest, RefusesACorpusWithoutDocuments) {
  const CraftedFiles files;
  const Corpus empty = Read({files.Write("a.jsonl", "\n").string()});
  EXPECT_EQ(empty.status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(empty.message(), AllOf(HasSubstr("empty corpus"), HasSubstr("a.jsonl")));
  const Corpus bad = Read({files.Write("b.jsonl", "oops\n{\n{\"text\": \"\"}\n").string()});
  EXPECT_THAT(bad.message(), HasSubstr("1 empty, 2 invalid json"));
  EXPECT_EQ(bad.rejects.size(), 3u);
}

TEST(CorpusReaderTest, ExplainsAJsonArray) {
  const CraftedFiles files;
  const Corpus corpus = Read({files.Write("a.json", "[{\"text\": \"t\"}]\n").string()});
  EXPECT_THAT(corpus.message(), HasSubstr("jq -c"));
  const Corpus pretty = Read({files.Write("p.json", "[\n  {\"text\": \"t\"}\n]\n").string()});
  EXPECT_THAT(pretty.message(), HasSubstr("jq -c"));
}

TEST(CorpusReaderTest, ReportsATruncatedFileAfterItsCompleteRecords) {
  const CraftedFiles files;
  std::string lines;
  for (int i = 0; i < 50000; ++i) lines += absl::StrCat("{\"text\": \"", i * 7919, "\"}\n");
  const std::string gzip = Gzip(lines);
  const auto path = files.Write("a.jsonl.gz", gzip.substr(0, gzip.size() - 100));
  const Corpus corpus = Read({path.string()});
  EXPECT_TRUE(corpus.status.ok()) << corpus.status;
  EXPECT_GT(corpus.documents.size(), 1000u);
  ASSERT_EQ(corpus.rejects.size(), 1u);
  const Reject& rest = corpus.rejects[0];
  EXPECT_EQ(rest.reason, "damaged");
  EXPECT_THAT(rest.detail, AllOf(HasSubstr(path.string()), HasSubstr("cut short")));
  EXPECT_EQ(rest.offset, corpus.documents.back().offset +
                             static_cast<int64_t>(corpus.documents.back().text.size()) + 13);
}

TEST(CorpusReaderTest, StrictModeNamesThePlaceByTheKindOfFile) {
  const CraftedFiles files;
  v1::IngestConfig config;
  config.set_strict(true);
  const auto lines = files.Write("a.jsonl", "{\"text\": \"a\"}\n{\"text\": \"\"}\n");
  EXPECT_THAT(Read({lines.string()}, config).message(),
              HasSubstr("a.jsonl, record at byte 14: empty"));
  EXPECT_THAT(Read({BRAID_TESTS_DIR "/formats/parquet/golden/none-1.parquet"}, config).message(),
              HasSubstr("none-1.parquet, record at row 0: empty"));
  files.Write("d/.hidden", "a");
  files.Write("d/b.txt", "a");
  const Corpus entry = Read({(files.directory() / "d").string()}, config);
  EXPECT_THAT(entry.message(), HasSubstr("d/.hidden: hidden; expected"));
}

TEST(CorpusReaderTest, RefusesNegativeLimits) {
  v1::IngestConfig config;
  config.set_split_bytes(-1);
  EXPECT_THAT(Read({"/"}, config).message(), HasSubstr("ingest.split_bytes: got -1"));
}

TEST(DomainNameTest, IsSafeAsAFileName) {
  EXPECT_EQ(DomainName("Git Hub/C++"), "Git_Hub_C++");
  EXPECT_EQ(DomainName(".."), "_.");
  EXPECT_EQ(DomainName(""), "_");
  EXPECT_EQ(DomainName("caf\xe9 1"), "caf__1");
  EXPECT_EQ(DomainName("新闻"), "新闻");
  std::string longest;
  for (int i = 0; i < 40; ++i) longest += "新";
  EXPECT_EQ(DomainName(longest).size(), 78u);
}

TEST(DamageAtTest, AnErrorOfTheFileSystemIsNotDamage) {
  const absl::Status failed = SystemError("open", "a.jsonl", EIO);
  EXPECT_EQ(DamageAt(0, failed).status(), failed);
  const auto damaged = DamageAt(7, absl::DataLossError("a.jsonl: wrong checksum"));
  ASSERT_TRUE(damaged.ok()) << damaged.status();
  EXPECT_EQ(damaged->kind, RecordKind::kDamage);
  EXPECT_EQ(damaged->offset, 7);
}

}  // namespace corpus_reader_test
}  // namespace braid

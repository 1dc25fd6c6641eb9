#include "pipeline/corpus/corpus_description.h"

#include <gmock/gmock.h>

#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/base/crafted_files.h"
#include "tests/base/status_matchers.h"

namespace braid {
namespace corpus_description_test {

using absl::StatusCode;

absl::Status Ignore(int64_t, int64_t) { return absl::OkStatus(); }

absl::StatusOr<v1::CorpusDescription> Describe(const v1::DescribeCorpusRequest& request) {
  return DescribeCorpus(request, Ignore);
}

// A corpus of random files and the description that a simple count of its records gives.
class RandomCorpus {
 public:
  RandomCorpus(uint64_t seed, bool all_have_fields)
      : random_(seed), all_have_fields_(all_have_fields) {
    request_.set_long_document_bytes(kLongBytes);
    const int num_files = 1 + static_cast<int>(Below(5));
    for (int i = 0; i < num_files; ++i) AddFile("part" + std::to_string(i));
    if (!all_have_fields) AddDirectory("notes");
  }

  const v1::DescribeCorpusRequest& request() const { return request_; }

  v1::CorpusDescription Expected() const {
    v1::CorpusDescription all = totals_;
    for (const auto& [name, counts] : domains_) {
      v1::CorpusDomain* domain = all.add_domains();
      domain->set_name(name);
      domain->set_num_documents(counts.first);
      domain->set_num_bytes(counts.second);
    }
    for (const auto& [reason, count] : rejects_) {
      v1::RejectCount* reject = all.add_rejects();
      reject->set_reason(reason);
      reject->set_count(count);
    }
    all.set_domain_source(all_named_ ? v1::DOMAIN_FROM_FIELD : v1::DOMAIN_FROM_PATH);
    return all;
  }

 private:
  static constexpr int64_t kLongBytes = 300;

  uint64_t Below(uint64_t bound) { return random_() % bound; }

  std::string Text() {
    std::string text = "é";
    for (uint64_t left = Below(100); left > 0; --left) text += std::to_string(Below(1000)) + "\n ";
    return text + ".";
  }

  void Count(const std::string& domain, const std::string& text, bool named) {
    const auto bytes = static_cast<int64_t>(text.size());
    domains_[domain].first += 1;
    domains_[domain].second += bytes;
    totals_.set_num_documents(totals_.num_documents() + 1);
    totals_.set_num_bytes(totals_.num_bytes() + bytes);
    if (bytes > kLongBytes) {
      totals_.set_num_long_documents(totals_.num_long_documents() + 1);
      totals_.set_num_long_bytes(totals_.num_long_bytes() + bytes);
    }
    all_named_ = all_named_ && named;
    totals_.set_num_field_documents(totals_.num_field_documents() + (named ? 1 : 0));
  }

  std::string Document(const std::string& stem) {
    const std::pair<const char*, const char*> names[] = {
        {"code", "code"}, {"law and order", "law_and_order"}, {".prose", "_prose"}};
    nlohmann::json record = {{"id", std::to_string(next_id_++)}, {"text", Text()}};
    const auto& [label, name] = names[Below(3)];
    const bool named = all_have_fields_ || Below(3) > 0;
    if (named) record["meta"]["kind"] = label;
    Count(named ? name : stem, record["text"], named);
    return record.dump();
  }

  // Has every kind of record; a reject affects no other count.
  std::string Record(const std::string& stem) {
    switch (Below(9)) {
      case 0:
        ++rejects_["invalid json"];
        return R"({"text": "cut)";
      case 1:
        ++rejects_["empty"];
        return R"({"id": "blank", "text": " \n", "meta": {"kind": "x"}})";
      case 2:
        ++rejects_["duplicate id"];
        return R"({"id": "0", "text": "again", "meta": {"kind": "y"}})";
      case 3:
        ++rejects_["missing text field"];
        return R"({"id": "other", "body": "no text"})";
      default:
        return Document(stem);
    }
  }

  void AddFile(const std::string& stem) {
    std::string lines = Document(stem) + "\n";
    for (uint64_t left = Below(400); left > 0; --left) lines += Record(stem) + "\n";
    const std::string name = stem + ".jsonl";
    const std::pair<std::string, std::string> forms[] = {
        {name, lines}, {name + ".gz", Gzip(lines)}, {name + ".zst", Zstd(lines)}};
    const auto& [file, bytes] = forms[Below(3)];
    request_.add_paths(files_.Write(file, bytes).string());
  }

  // A text in the directory, one in a sub-directory, a hidden file and a binary file.
  void AddDirectory(const std::string& name) {
    for (const char* at : {"a.txt", "sub/b.c"}) {
      const std::string text = Text();
      files_.Write(name + "/" + at, text);
      Count(*at == 'a' ? name : "sub", text, false);
    }
    files_.Write(name + "/.hidden", "not read");
    ++rejects_["hidden"];
    files_.Write(name + "/image", std::string("\0\1\2", 3));
    ++rejects_["binary"];
    request_.add_paths((files_.directory() / name).string());
  }

  std::mt19937_64 random_;
  const bool all_have_fields_;
  const CraftedFiles files_;
  v1::DescribeCorpusRequest request_ = [] {
    v1::DescribeCorpusRequest request;
    request.mutable_ingest()->set_domain_field("meta.kind");
    return request;
  }();
  int next_id_ = 0;
  std::map<std::string, std::pair<int64_t, int64_t>> domains_;  // documents, bytes
  std::map<std::string, int64_t> rejects_;
  v1::CorpusDescription totals_;
  bool all_named_ = true;
};

TEST(CorpusDescriptionTest, EqualsAPlainCountOfRandomCorpora) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const RandomCorpus corpus(seed, /*all_have_fields=*/seed % 2 == 0);
    auto description = Describe(corpus.request());
    ASSERT_OK(description) << seed;
    EXPECT_EQ(description->digest().size(), 32u);
    description->clear_digest();
    EXPECT_EQ(description->DebugString(), corpus.Expected().DebugString()) << seed;
    EXPECT_EQ(description->domain_source(),
              seed % 2 == 0 ? v1::DOMAIN_FROM_FIELD : v1::DOMAIN_FROM_PATH);
  }
}

TEST(CorpusDescriptionTest, CountsDocumentsBeforeSplitting) {
  const RandomCorpus corpus(1, true);
  v1::DescribeCorpusRequest request = corpus.request();
  for (const int64_t bytes : {100, 1, -7}) {  // no bad value either
    request.mutable_ingest()->set_split_bytes(bytes);
    auto description = Describe(request);
    ASSERT_OK(description);
    EXPECT_EQ(description->digest(), Describe(corpus.request())->digest());
    description->clear_digest();
    EXPECT_EQ(description->DebugString(), corpus.Expected().DebugString());
  }
}

// Edits that change no count.
TEST(CorpusDescriptionTest, AnyChangeOfTextChangesTheDigest) {
  const std::string first = R"({"id": "1", "domain": "x", "text": "one two"})";
  const std::string second = R"({"id": "2", "domain": "y", "text": "one two"})";
  const auto describe = [](const std::string& a, const std::string& b) {
    const CraftedFiles files;
    v1::DescribeCorpusRequest request;
    request.add_paths(files.Write("corpus.jsonl", a + "\n" + b + "\n").string());
    return *Describe(request);
  };
  const v1::CorpusDescription original = describe(first, second);
  EXPECT_EQ(describe(first, second).DebugString(), original.DebugString());
  EXPECT_EQ(describe(first, second + " ").DebugString(), original.DebugString());
  const auto replaced = [&](const char* from, const char* to) {
    std::string edited = first;
    edited.replace(edited.find(from), std::string(from).size(), to);
    return edited;
  };
  for (v1::CorpusDescription changed :
       {describe(second, first), describe(replaced("one two", "one too"), second),
        describe(replaced("one two", "two one"), second),
        describe(replaced("\"1\"", "\"3\""), second)}) {
    EXPECT_NE(changed.digest(), original.digest());
    changed.set_digest(original.digest());
    EXPECT_EQ(changed.DebugString(), original.DebugString()) << "equal except for the digest";
  }
}

TEST(CorpusDescriptionTest, CountsNoLongDocumentsWithoutALimit) {
  const RandomCorpus corpus(2, true);
  v1::DescribeCorpusRequest request = corpus.request();
  EXPECT_GT(Describe(request)->num_long_documents(), 0);
  request.set_long_document_bytes(0);
  EXPECT_EQ(Describe(request)->num_long_documents(), 0);
  EXPECT_EQ(Describe(request)->num_long_bytes(), 0);
  request.set_long_document_bytes(-1);
  EXPECT_FAILS(Describe(request), StatusCode::kInvalidArgument, "long_document_bytes", "-1");
}

TEST(CorpusDescriptionTest, ReportsProgressForEveryMegabyte) {
  const CraftedFiles files;
  std::string lines;
  const std::string text(100'000, 'x');
  for (int i = 0; i < 60; ++i) lines += nlohmann::json{{"text", text}}.dump() + "\n";
  v1::DescribeCorpusRequest request;
  request.add_paths(files.Write("a.jsonl", lines).string());
  request.add_paths(files.Write("b.jsonl.zst", Zstd(lines)).string());
  int num_reports = 0;
  int64_t last = 0, all = 0;
  ASSERT_OK(DescribeCorpus(request, [&](int64_t done, int64_t total) {
    EXPECT_EQ(done == 0, num_reports++ == 0);
    EXPECT_GE(done, last);
    EXPECT_LE(done, total);
    last = done;
    all = total;
    return absl::OkStatus();
  }));
  EXPECT_GE(num_reports, 12);
  EXPECT_EQ(last, all);
  EXPECT_GT(all, static_cast<int64_t>(lines.size())) << "both files";
}

TEST(CorpusDescriptionTest, StopsWhenTheCallbackFails) {
  const RandomCorpus corpus(3, true);
  for (const int last : {1, 2}) {
    int num_reports = 0;
    EXPECT_FAILS(DescribeCorpus(corpus.request(),
                                [&](int64_t, int64_t) {
                                  return ++num_reports < last ? absl::OkStatus()
                                                              : absl::CancelledError("enough");
                                }),
                 StatusCode::kCancelled, "enough");
    EXPECT_EQ(num_reports, last);
  }
}

// Stops before the first file is read: each entry is visited twice, in its directory and by itself.
TEST(CorpusDescriptionTest, StopsWhileListingDirectories) {
  const CraftedFiles files;
  for (int i = 0; i < 320; ++i) files.Write("many/" + std::to_string(i), "text");
  v1::DescribeCorpusRequest request;
  request.add_paths((files.directory() / "many").string());
  const auto reports_until = [&](int last) {
    int num_reports = 0;
    const absl::Status status =
        DescribeCorpus(request, [&](int64_t done, int64_t total) {
          if (total > 0) return absl::InternalError("read");
          EXPECT_EQ(done, 0);
          ++num_reports;
          return num_reports < last ? absl::OkStatus() : absl::CancelledError("enough");
        }).status();
    EXPECT_EQ(absl::IsCancelled(status), num_reports == last) << status;
    return num_reports;
  };
  for (const int last : {1, 5, 6, 10}) EXPECT_EQ(reports_until(last), last);
  EXPECT_EQ(reports_until(11), 10);
}

TEST(CorpusDescriptionTest, FailsAsIngestDoes) {
  const CraftedFiles files;
  const auto fails = [](const std::vector<std::string>& paths, StatusCode code, const char* text,
                        const v1::IngestConfig& ingest = {}) {
    v1::DescribeCorpusRequest request;
    request.mutable_paths()->Assign(paths.begin(), paths.end());
    *request.mutable_ingest() = ingest;
    EXPECT_FAILS(Describe(request), code, text);
  };
  const std::string good = files.Write("good.jsonl", "{\"text\": \"a\"}\n{\n").string();
  fails({}, StatusCode::kInvalidArgument, "paths");
  fails({good, "/no/such/corpus.jsonl"}, StatusCode::kNotFound, "/no/such/corpus.jsonl");
  fails({files.Write("x.pdf", "text").string()}, StatusCode::kInvalidArgument, ".pdf");
  fails({files.Write("none.jsonl", "").string()}, StatusCode::kInvalidArgument, "empty corpus");
  v1::IngestConfig config;
  config.set_text_field("txt");
  fails({good}, StatusCode::kInvalidArgument, "did you mean \"text\"", config);
  config.Clear();
  config.set_strict(true);
  fails({good}, StatusCode::kInvalidArgument, "good.jsonl, record at byte 14: invalid json",
        config);
  files.Write("tokens.idx", "");
  fails({files.Write("tokens.bin", "").string()}, StatusCode::kInvalidArgument,
        "only braid submit reads tokens");
  config.Clear();
  config.set_max_document_bytes(-1);
  fails({good}, StatusCode::kInvalidArgument, "max_document_bytes", config);
}

TEST(CorpusDescriptionTest, NotesFilesOfRecordsThatAreReadAsDocuments) {
  const CraftedFiles files;
  const std::string json = files.Write("dj/train.json", "{\"text\": \"a\"}\n").string();
  v1::DescribeCorpusRequest directory, named;
  directory.add_paths((files.directory() / "dj").string());
  named.add_paths(json);
  const std::string advice =
      "; name .json files as paths to read their records, and convert others to JSON lines";
  files.Write("dj/more.jsonl.gz", Gzip("{\"text\": \"b\"}\n"));
  files.Write("dj/notes.md", "text");
  EXPECT_THAT(Describe(directory)->notes(),
              testing::ElementsAre("1 file such as " + json + " is read as one document" + advice));
  EXPECT_THAT(Describe(named)->notes(), testing::IsEmpty());
  files.Write("dj/web/page.HTML.gz", Gzip("<p>text</p>"));
  EXPECT_THAT(
      Describe(directory)->notes(),
      testing::ElementsAre("2 files such as " + json + " are read as one document each" + advice));
}

TEST(CorpusDescriptionTest, NotesADomainFieldThatNoRecordHas) {
  const CraftedFiles files;
  v1::DescribeCorpusRequest request;
  const auto path =
      files.Write("a.jsonl", "{\"text\": \"a\"}\n{\"text\": \"b\", \"kind\": \"x\"}\n");
  request.add_paths(path.string());
  EXPECT_THAT(Describe(request)->notes(), testing::IsEmpty()) << "the default field";
  request.mutable_ingest()->set_domain_field("kind");
  EXPECT_THAT(Describe(request)->notes(), testing::IsEmpty());
  request.mutable_ingest()->set_domain_field("knd");
  EXPECT_THAT(Describe(request)->notes(),
              testing::ElementsAre("no record has the field \"knd\"; domains come from the names "
                                   "of files and directories"));
}

TEST(CorpusDescriptionTest, RefusesADomainForEachDocument) {
  const CraftedFiles files;
  std::string lines;
  for (int i = 0; i <= 16384; ++i) {
    lines += "{\"text\": \"a\", \"domain\": \"" + std::to_string(i) + "\"}\n";
  }
  v1::DescribeCorpusRequest request;
  request.add_paths(files.Write("a.jsonl", lines).string());
  EXPECT_FAILS(Describe(request), StatusCode::kInvalidArgument, "16384 domains",
               "set ingest.domain_field", "one that no record has", "pack.domain_clusters");
  request.mutable_ingest()->set_domain_field("none");
  EXPECT_EQ(Describe(request)->domains_size(), 1);
}

TEST(CorpusDescriptionTest, RefusesADomainForEachFile) {
  const CraftedFiles files;
  v1::DescribeCorpusRequest each;
  for (int i = 0; i <= 16384; ++i) {
    each.add_paths(files.Write(std::to_string(i) + ".txt", "a").string());
  }
  EXPECT_FAILS(Describe(each), StatusCode::kInvalidArgument, "16384 domains", "names of files",
               "parent directory", "pack.domain_clusters");
}

}  // namespace corpus_description_test
}  // namespace braid

// Malformed corpora: every record becomes a document or a counted reject with file, offset and
// reason; no input crashes or blocks the reader; and strict mode fails on the first reject.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "pipeline/corpus/corpus_reader.h"
#include "tests/base/crafted_files.h"
#include "tests/pipeline/corpus/malformed_files.h"

namespace braid {
namespace malformed_corpus_test {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kGood[] = "{\"id\": \"good\", \"text\": \"a good record\"}\n";

std::string Repeated(int records) {
  std::string lines;
  for (int i = 0; i < records; ++i) lines += absl::StrCat("{\"text\": \"", i * 7919, "\"}\n");
  return lines;
}

struct Outcome {
  absl::Status status;
  std::vector<std::string> texts;
  std::vector<Reject> rejects;
  int64_t num_records = 0;
  int64_t num_accepted = 0;

  // As in MalformedFile.
  std::string Rejects() const {
    std::map<std::string, int> counts;
    for (const Reject& reject : rejects) ++counts[reject.reason];
    return absl::StrJoin(counts, ", ", absl::PairFormatter(" "));
  }
  std::string message() const { return std::string(status.message()); }
};

void ReadOn(CorpusReader* reader, Outcome* outcome) {
  Document document;
  CorpusStep step = CorpusStep::kNoneYet;
  while (outcome->status.ok() && step != CorpusStep::kEnd) {
    const absl::StatusOr<CorpusStep> next = reader->Next(&document, &outcome->rejects);
    outcome->status = next.status();
    step = next.value_or(CorpusStep::kEnd);
    if (step == CorpusStep::kDocument) outcome->texts.push_back(document.text);
  }
  outcome->num_records = reader->num_records();
  outcome->num_accepted = reader->num_accepted();
}

Outcome Read(const std::vector<std::string>& paths, const v1::IngestConfig& config = {}) {
  Outcome outcome;
  const auto reader = CorpusReader::Open(paths, config);
  outcome.status = reader.status();
  if (reader.ok()) ReadOn(reader->get(), &outcome);
  return outcome;
}

v1::IngestConfig OneMebibyte() {
  v1::IngestConfig config;
  config.set_max_document_bytes(1 << 20);
  return config;
}

class MalformedCorpusTest : public testing::Test {
 protected:
  // Follows a good file, so that the error is neither in the first record nor an empty corpus.
  Outcome ReadAfterGood(const fs::path& path, const v1::IngestConfig& config = {}) const {
    Outcome outcome = Read({good_, path.string()}, config);
    if (!outcome.texts.empty()) outcome.texts.erase(outcome.texts.begin());
    return outcome;
  }
  // Lowers the limits, so that a small file counts as a bomb.
  static v1::IngestConfig SmallLimits() {
    v1::IngestConfig config;
    config.set_max_expanded_bytes(8 << 20);
    return config;
  }
  fs::path Path(const char* name) const { return files_.directory() / name; }

  const CraftedFiles files_;
  const std::string good_ = files_.Write("0good.jsonl", kGood).string();
};

TEST_F(MalformedCorpusTest, EveryMalformedFileHasItsExpectedOutcome) {
  const std::vector<MalformedFile> table = MalformedFiles();
  std::set<std::string> kinds;
  for (const MalformedFile& file : table) {
    SCOPED_TRACE(file.kind + ": " + file.name);
    kinds.insert(file.kind);
    const fs::path path = files_.Write(file.kind + "/" + file.name, file.bytes);
    const Outcome outcome = ReadAfterGood(path, OneMebibyte());
    EXPECT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_EQ(static_cast<int>(outcome.texts.size()), file.documents);
    EXPECT_EQ(outcome.Rejects(), file.rejects);
    EXPECT_EQ(outcome.num_records, outcome.num_accepted + std::ssize(outcome.rejects));
    for (const Reject& reject : outcome.rejects) {
      EXPECT_EQ(reject.file, path.string());
      EXPECT_EQ(reject.detail.empty(), reject.reason != "damaged") << reject.detail;
    }
  }
  std::cout << table.size() << " files of " << kinds.size() << " kinds\n";
  EXPECT_GE(table.size(), 100u);
  EXPECT_GE(kinds.size(), 25u);
}

TEST_F(MalformedCorpusTest, StrictModeFailsOnExactlyTheFilesWithRejects) {
  v1::IngestConfig strict = OneMebibyte();
  strict.set_strict(true);
  for (const MalformedFile& file : MalformedFiles()) {
    SCOPED_TRACE(file.kind + ": " + file.name);
    const fs::path path = files_.Write(file.kind + "/" + file.name, file.bytes);
    const Outcome outcome = ReadAfterGood(path, strict);
    if (file.rejects.empty()) {
      EXPECT_TRUE(outcome.status.ok()) << outcome.status;
      continue;
    }
    ASSERT_EQ(outcome.rejects.size(), 1u);
    const Reject& reject = outcome.rejects[0];
    EXPECT_EQ(outcome.status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(outcome.message(),
                AllOf(HasSubstr(path.string()), HasSubstr(reject.reason),
                      HasSubstr(absl::StrCat("at byte ", reject.offset)), HasSubstr("strict")));
  }
}

TEST_F(MalformedCorpusTest, KeepsCompleteRecordsBeforeATruncationAtAnyByte) {
  std::string lines;
  std::vector<std::string> texts;
  for (int i = 0; i < 20; ++i) {
    texts.push_back("record " + std::to_string(i * i * 7919));
    lines += "{\"text\": \"" + texts.back() + "\"}\n";
  }
  for (const auto& [name, whole] : std::map<std::string, std::string>{
           {"cut.jsonl.gz", Gzip(lines)},
           {"cut.jsonl.zst", Zstd(lines)},
           {"members.jsonl.gz", Gzip(lines.substr(0, 100)) + Gzip(lines.substr(100))},
           {"frames.jsonl.zst", Zstd(lines.substr(0, 100)) + Zstd(lines.substr(100))}}) {
    size_t read_before = 0;
    for (size_t size = 0; size <= whole.size(); ++size) {
      SCOPED_TRACE(absl::StrCat(name, " cut to ", size, " of ", whole.size()));
      const fs::path path = files_.Write(name, whole.substr(0, size));
      const Outcome outcome = ReadAfterGood(path);
      ASSERT_TRUE(outcome.status.ok()) << outcome.status;
      ASSERT_GE(outcome.texts.size(), read_before);
      ASSERT_TRUE(std::equal(outcome.texts.begin(), outcome.texts.end(), texts.begin()));
      read_before = outcome.texts.size();
      // A file truncated at the end of a member is valid, except for its incomplete last record.
      ASSERT_EQ(outcome.rejects.size(), size == whole.size() ? 0u : 1u);
    }
    EXPECT_EQ(read_before, texts.size());
  }
}

TEST_F(MalformedCorpusTest, RejectsTheRestOfADamagedFileAndReadsTheNextFile) {
  const std::string lines = Repeated(2000);
  std::string gzip = Gzip(lines);
  gzip.resize(gzip.size() / 2);
  const fs::path path = files_.Write("cut.jsonl.gz", gzip);
  const Outcome outcome =
      Read({good_, path.string(), files_.Write("z.jsonl", "{\"text\": \"last\"}\n").string()});
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_EQ(outcome.texts.back(), "last");
  ASSERT_EQ(outcome.rejects.size(), 1u);
  const Reject& reject = outcome.rejects[0];
  EXPECT_EQ(reject.reason, "damaged");
  EXPECT_THAT(reject.detail, AllOf(HasSubstr("cut.jsonl.gz"), HasSubstr("cut short")));
  const size_t records_before =
      static_cast<size_t>(std::count(lines.begin(), lines.begin() + reject.offset, '\n'));
  EXPECT_EQ(outcome.texts.size(), records_before + 2);
  EXPECT_GT(records_before, 500u);
}

TEST_F(MalformedCorpusTest, StopsBombsByRatioAndByAbsoluteSize) {
  const std::string zeros(int64_t{80} << 20, ' ');
  const std::string start = Gzip("{\"text\": \"kept\"}\n");
  // Compressed 1,029 to 1 and 32,000 to 1.
  for (const auto& path :
       {files_.Write("ratio.jsonl.gz", start + Gzip(zeros)),
        files_.Write("ratio.jsonl.zst", Zstd("{\"text\": \"kept\"}\n") + Zstd(zeros))}) {
    for (const v1::IngestConfig& config : {v1::IngestConfig(), SmallLimits()}) {
      const Outcome outcome = ReadAfterGood(path, config);
      EXPECT_TRUE(outcome.status.ok()) << outcome.status;
      EXPECT_THAT(outcome.texts, ElementsAre("kept"));
      EXPECT_EQ(outcome.Rejects(), "decompression bomb 1");
      EXPECT_THAT(outcome.rejects[0].detail, HasSubstr("ingest.max_expan"));
    }
  }
  v1::IngestConfig generous;
  generous.set_max_expansion_ratio(100'000);
  EXPECT_EQ(ReadAfterGood(Path("ratio.jsonl.zst"), generous).Rejects(), "too long 1");
}

TEST_F(MalformedCorpusTest, RefusesSpecialFilesByNameWithoutBlocking) {
  ASSERT_EQ(mkfifo(Path("pipe.jsonl").c_str(), 0600), 0);
  fs::create_symlink("pipe.jsonl", Path("link.jsonl"));
  const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string socket_name = "/tmp/braid-malformed-" + std::to_string(getpid()) + ".jsonl";
  socket_name.copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  fs::create_symlink("/dev/zero", Path("zero.jsonl"));
  for (const auto& [path, kind] :
       std::map<std::string, std::string>{{Path("pipe.jsonl"), "a FIFO"},
                                          {Path("link.jsonl"), "a FIFO"},
                                          {socket_name, "a socket"},
                                          {Path("zero.jsonl"), "a device"},
                                          {"/dev/zero", "a device"}}) {
    const Outcome outcome = ReadAfterGood(path);
    EXPECT_EQ(outcome.status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(outcome.message(), AllOf(HasSubstr(path), HasSubstr(kind)));
    EXPECT_FALSE(TextSource::Open(path).ok()) << "also when it replaces a file after listing";
  }
  close(listener);
  fs::remove(socket_name);
  const Outcome directory = Read({files_.directory().string()});
  EXPECT_TRUE(directory.status.ok()) << directory.status;
  EXPECT_EQ(directory.Rejects(), "not a file 3");
}

TEST_F(MalformedCorpusTest, ALinkToItselfIsBadInput) {
  fs::create_symlink("loop.jsonl", Path("loop.jsonl"));
  const Outcome outcome = ReadAfterGood(Path("loop.jsonl"));
  EXPECT_EQ(outcome.status.code(), absl::StatusCode::kInvalidArgument) << outcome.status;
  EXPECT_THAT(outcome.message(), HasSubstr(Path("loop.jsonl").string()));
}

TEST_F(MalformedCorpusTest, ReadsADirectoryNamedLikeAFileAsADirectory) {
  files_.Write("shards.jsonl/part-0.jsonl", "{\"text\": \"a\"}\n");
  files_.Write("shards.jsonl/part-1.jsonl.gz", Gzip("{\"text\": \"b\"}\n"));
  EXPECT_THAT(ReadAfterGood(Path("shards.jsonl")).texts, ElementsAre("a", "b"));
}

TEST_F(MalformedCorpusTest, FollowsLinksToFilesAndReportsOtherLinks) {
  const auto link = [&](const char* target, const char* name) {
    fs::create_directories(Path(name).parent_path());
    fs::create_symlink(target, Path(name));
  };
  link("0good.jsonl", "to_file.jsonl");
  EXPECT_THAT(Read({Path("to_file.jsonl").string()}).texts, ElementsAre("a good record"));
  link("loop_b.jsonl", "loop_a.jsonl");
  link("loop_a.jsonl", "loop_b.jsonl");
  link("nowhere", "dangling.jsonl");
  EXPECT_THAT(ReadAfterGood(Path("loop_a.jsonl")).message(),
              AllOf(HasSubstr("loop_a.jsonl"), HasSubstr("symbolic links")));
  const Outcome dangling = ReadAfterGood(Path("dangling.jsonl"));
  EXPECT_EQ(dangling.status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(dangling.message(), HasSubstr("dangling.jsonl"));

  files_.Write("other/a.txt", "outside");
  link("../other/a.txt", "d/file.txt");
  link("../other", "d/directory");
  link(".", "d/itself");
  link("nowhere", "d/dangling.txt");
  link("loop.txt", "d/loop.txt");
  const Outcome inside = ReadAfterGood(Path("d"));
  EXPECT_THAT(inside.texts, ElementsAre("outside"));
  EXPECT_EQ(inside.Rejects(), "directory link 2, not a file 2");
}

// Runs as a user other than root, to whom permissions do not apply.
class UnprivilegedUser {
 public:
  UnprivilegedUser() {
    if (geteuid() == 0) switched_ = seteuid(65534) == 0;
  }
  ~UnprivilegedUser() {
    if (switched_ && seteuid(0) != 0) std::abort();
  }

 private:
  bool switched_ = false;
};

TEST_F(MalformedCorpusTest, ReportsUnreadableFilesByName) {
  const fs::path secret = files_.Write("d/secret.txt", "secret");
  files_.Write("d/locked/a.txt", "locked");
  files_.Write("d/open.txt", "open");
  fs::permissions(secret, fs::perms::none);
  fs::permissions(Path("d/locked"), fs::perms::none);
  Outcome given, inside;
  {
    const UnprivilegedUser user;
    if (access(good_.c_str(), R_OK) != 0)
      GTEST_SKIP() << "other users may not enter " << files_.directory();
    given = ReadAfterGood(secret);
    inside = ReadAfterGood(Path("d"));
  }
  fs::permissions(Path("d/locked"), fs::perms::owner_all);
  EXPECT_EQ(given.status.code(), absl::StatusCode::kPermissionDenied) << given.status;
  EXPECT_THAT(given.message(), HasSubstr("secret.txt"));
  EXPECT_THAT(inside.texts, ElementsAre("open")) << inside.status;
  EXPECT_EQ(inside.Rejects(), "unreadable 2");
}

TEST_F(MalformedCorpusTest, DetectsAFileThatChangesWhileItIsRead) {
  const auto change = [&](const std::string& name, const std::function<void(const fs::path&)>& how,
                          const std::string& expected) {
    const std::string lines = Repeated(50'000);
    const fs::path path = files_.Write(name, name.ends_with("gz") ? Gzip(lines) : lines);
    auto reader = CorpusReader::Open(std::vector<std::string>{path.string()}, {});
    Document document;
    Outcome outcome;
    ASSERT_TRUE(reader.ok() && (*reader)->Next(&document, &outcome.rejects).ok());
    how(path);
    ReadOn(reader->get(), &outcome);
    EXPECT_EQ(outcome.status.code(), absl::StatusCode::kFailedPrecondition) << outcome.status;
    EXPECT_THAT(outcome.message(), AllOf(HasSubstr(path.string()), HasSubstr(expected)));
    EXPECT_EQ(outcome.num_records, outcome.num_accepted + std::ssize(outcome.rejects));
  };
  for (const std::string name : {"a.jsonl", "a.jsonl.gz"}) {
    change(
        name, [](const fs::path& path) { std::ofstream(path, std::ios::app) << kGood; },
        "bytes instead of");
    change(
        name, [](const fs::path& path) { fs::resize_file(path, fs::file_size(path) / 2); },
        "bytes instead of");
    change(
        name, [](const fs::path& path) { fs::resize_file(path, 0); }, "0 bytes instead of");
    change(
        name,
        [&](const fs::path& path) { fs::rename(files_.Write("other", Repeated(50'000)), path); },
        "different file");
    change(
        name, [](const fs::path& path) { fs::remove(path); }, "no file");
  }
}

TEST_F(MalformedCorpusTest, GivesUtf8IdsToFilesWithOtherNames) {
  files_.Write("d/caf\xE9.txt", "latin");
  files_.Write("d/new\nline.txt", "line");
  const auto reader = CorpusReader::Open(std::vector<std::string>{Path("d").string()}, {});
  ASSERT_TRUE(reader.ok());
  std::vector<Reject> rejects;
  Document document;
  ASSERT_EQ(*(*reader)->Next(&document, &rejects), CorpusStep::kDocument);
  EXPECT_EQ(document.id, "caf%E9.txt");
  ASSERT_EQ(*(*reader)->Next(&document, &rejects), CorpusStep::kDocument);
  EXPECT_EQ(document.id, "new\nline.txt");
}

TEST_F(MalformedCorpusTest, ReturnsRegularlyWhileNothingIsAccepted) {
  std::string lines;
  for (int i = 0; i < 100'000; ++i) lines += "1\n";
  const auto reader = CorpusReader::Open(
      std::vector<std::string>{good_, files_.Write("bad.jsonl", lines).string()}, {});
  ASSERT_TRUE(reader.ok());
  size_t most = 0, total = 0;
  Document document;
  for (CorpusStep step = CorpusStep::kNoneYet; step != CorpusStep::kEnd;) {
    std::vector<Reject> rejects;
    step = *(*reader)->Next(&document, &rejects);
    most = std::max(most, rejects.size());
    total += rejects.size();
  }
  EXPECT_EQ(total, 100'000u);
  EXPECT_LE(most, 1000u) << "a caller has to bound its memory and check for cancellation";
}

TEST_F(MalformedCorpusTest, ReturnsRegularlyInALongLineAndAmongBlankOnes) {
  std::string blank(size_t{150} << 20, ' ');
  for (size_t end = 1023; end < blank.size(); end += 1024) blank[end] = '\n';
  const fs::path line = files_.Write("line.jsonl", "");
  fs::resize_file(line, blank.size());  // zeros
  v1::IngestConfig config;
  config.set_max_expansion_ratio(1 << 20);
  for (const fs::path& path : {line, files_.Write("blank.jsonl.zst", Zstd(blank))}) {
    const auto reader = CorpusReader::Open(std::vector{path.string()}, config).value();
    Document document;
    std::vector<Reject> rejects;
    int num_returns = 0;
    while (reader->Next(&document, &rejects).ok()) ++num_returns;
    EXPECT_GE(num_returns, 2) << path;
  }
}

}  // namespace malformed_corpus_test
}  // namespace braid

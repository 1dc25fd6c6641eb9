#include "pipeline/corpus/evaluation_texts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/atomic_file.h"
#include "base/crc32c.h"
#include "tests/base/crafted_files.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"

namespace braid {
namespace evaluation_texts_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

std::vector<std::string> TextsOf(const EvaluationTexts& read) {
  std::vector<std::string> texts;
  for (const EvaluationText& text : read.texts) texts.push_back(text.text);
  return texts;
}

EvaluationTexts Read(const std::vector<std::string>& paths) {
  auto texts = ReadEvaluationTexts(paths);
  EXPECT_TRUE(texts.ok()) << texts.status();
  return texts.value_or(EvaluationTexts());
}

TEST(EvaluationTextsTest, ReadsFilesOfEachKind) {
  const CraftedFiles files;
  const std::string lines =
      "{\"goal\": \"one\", \"n\": 3}\n\n{\"goal\": [\"two\", {\"x\": \"three\"}]}\n";
  const auto jsonl = files.Write("t/a.jsonl", lines);
  files.Write("t/b.json", "[{\"q\": \"four\"},\n {\"q\": \"five\"}]");
  files.Write("t/c.csv", "question,answer\n\"six,\nseven 1,000\",8\n");
  files.Write("t/d.tsv.gz", Gzip("nine 2,000\t0\nten\t1\n"));
  files.Write("t/e.txt", "eleven\ntwelve\n");
  files.Write("t/f.txt", "{\"article\": \"thirteen\"}");
  files.Write("t/.hidden", "hidden");
  const EvaluationTexts read = Read({(files.directory() / "t").string()});
  EXPECT_THAT(TextsOf(read), ElementsAre("one", "", "two", "three", "four", "five",
                                         "question answer", "\"six,\nseven 1,000\" 8",
                                         "nine 2,000 0", "ten 1", "eleven\ntwelve\n", "thirteen"));
  ASSERT_EQ(read.files.size(), 6u);
  EXPECT_EQ(read.files[0].path, jsonl.string());
  EXPECT_EQ(read.files[0].bytes, static_cast<int64_t>(lines.size()));
  EXPECT_EQ(read.files[0].crc32c, Crc32c(lines));
  EXPECT_THAT(read.PlaceOf(2), EndsWith("a.jsonl:3"));
  EXPECT_THAT(read.PlaceOf(8), EndsWith("d.tsv.gz:1"));
  EXPECT_THAT(read.PlaceOf(10), EndsWith("e.txt"));
}

TEST(EvaluationTextsTest, ReadsJsonLinesAfterBlankOnes) {
  const CraftedFiles files;
  const auto path = files.Write("a.jsonl", "\n{\"x\": \"one\\ntwo\"}\n{\"x\": \"three\"}\n");
  const EvaluationTexts read = Read({path.string()});
  EXPECT_THAT(TextsOf(read), ElementsAre("", "one\ntwo", "three"));
  EXPECT_THAT(read.PlaceOf(1), EndsWith("a.jsonl:2"));
}

TEST(EvaluationTextsTest, ReadsDeeplyNestedJsonAndLinesThatAreNotJson) {
  const CraftedFiles files;
  const std::string deep = std::string(100'000, '[') + "\"core\"" + std::string(100'000, ']');
  const auto a = files.Write("deep.json", deep);
  const auto b = files.Write("mixed.log", "{\"x\": \"good\"}\n{\"x\": bad}\n");
  EXPECT_THAT(TextsOf(Read({a.string(), b.string()})), ElementsAre("core", "good", "{\"x\": bad}"));
}

// Its escapes would hide the text from the comparison.
TEST(EvaluationTextsTest, RefusesJsonFilesWithOtherRecords) {
  const CraftedFiles files;
  for (const auto& [name, text, place] :
       {std::tuple("nan.jsonl", "{\"x\": \"a\"}\n{\"x\": \"b\\nc\", \"score\": NaN}\n",
                   "nan.jsonl:2:"),
        {"half.ndjson", "{\"x\": \"\\ud83d\"}\n", "half.ndjson:1:"},
        {"pretty.json", "{\n\"x\": \"a\"\n}\n{\n\"x\": \"b\"\n}\n", "pretty.json:1:"}}) {
    const auto read = ReadEvaluationTexts(std::vector{files.Write(name, text).string()});
    EXPECT_TRUE(absl::IsInvalidArgument(read.status())) << name;
    EXPECT_THAT(std::string(read.status().message()),
                AllOf(HasSubstr(place), HasSubstr("not JSON")))
        << name;
  }
}

TEST(EvaluationTextsTest, ReportsAMissingFile) {
  const auto texts = ReadEvaluationTexts(std::vector<std::string>{"/nonexistent/a.jsonl"});
  EXPECT_EQ(texts.status().code(), absl::StatusCode::kNotFound) << texts.status();
  EXPECT_THAT(std::string(texts.status().message()), HasSubstr("/nonexistent/a.jsonl"));
}

TEST(EvaluationTextsTest, ReadsTheTextColumnsOfParquet) {
  const std::filesystem::path path =
      std::filesystem::path(BRAID_TESTS_DIR) / "formats/parquet/golden/gzip-1.parquet";
  const auto golden = nlohmann::json::parse(*ReadFile(path.parent_path() / "rows.json"));
  std::vector<std::string> expected;
  std::vector<int64_t> rows;
  for (size_t row = 0; row < golden["rows"].size(); ++row) {
    for (size_t c = 0; c < golden["columns"].size(); ++c) {
      const std::string name = golden["columns"][c];
      const bool text = name == "text" || name == "id" || name == "meta.source";
      if (!text || golden["rows"][row][c].is_null()) continue;
      expected.push_back(golden["rows"][row][c]);
      rows.push_back(static_cast<int64_t>(row) + 1);
    }
  }
  const EvaluationTexts read = Read({path.string()});
  ASSERT_EQ(TextsOf(read), expected);
  for (size_t i = 0; i < rows.size(); ++i) ASSERT_EQ(read.texts[i].line, rows[i]);
  EXPECT_EQ(read.files[0].crc32c, Crc32c(*ReadFile(path)));
}

TEST(EvaluationTextsTest, RefusesFilesOfTokensByName) {
  const CraftedFiles files;
  files.Write("t/a.txt", "text");
  files.Write("t/b.bin", "tokens");
  files.Write("t/b.idx", "index");
  const auto read = ReadEvaluationTexts(std::vector{(files.directory() / "t").string()});
  ASSERT_TRUE(absl::IsInvalidArgument(read.status())) << read.status();
  EXPECT_THAT(std::string(read.status().message()), HasSubstr("t/b.bin"));
}

TEST(EvaluationTextsTest, RefusesWhatIsNotUtf8TextByName) {
  using std::string_literals::operator""s;
  const std::string utf16 = "t\0e\0x\0t\0"s;
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"\xFF\xFE" + utf16, "got UTF-16 or UTF-32 text, expected UTF-8 text, JSON or Parquet"},
      {"\xFE\xFF\0t\0e"s, "UTF-16 or UTF-32"},
      {"\0\0\xFE\xFF\0\0\0t"s, "UTF-16 or UTF-32"},
      {Gzip("\xFF\xFE" + utf16), "UTF-16 or UTF-32"},
      {utf16, "NUL"},
      {std::string(8191, 'a') + '\0', "NUL"},
      {FromHex("fd377a585a0000"), "xz"},
      {FromHex("425a683931415926535901"), "bzip2"},
      {FromHex("504b0304140000000800"), "zip"}};
  const CraftedFiles files;
  for (const auto& [bytes, reason] : cases) {
    const std::string path = files.Write("t/a.txt", bytes).string();
    EXPECT_FAILS(ReadEvaluationTexts(std::vector{path}), absl::StatusCode::kInvalidArgument,
                 "decontaminate.paths: " + path, reason);
  }
  const auto late = files.Write("late.txt", std::string(8192, 'a') + '\0');
  const auto words = files.Write("words.txt", "BZh91 and PK are words");
  EXPECT_EQ(Read({late.string(), words.string()}).texts.size(), 2u);
}

// No setting of a job allows more, and no retry would help.
TEST(EvaluationTextsTest, RefusesFilesThatExpandTooFarForGood) {
  const CraftedFiles files;
  const std::vector<std::string> paths = {
      files.Write("a.txt.zst", Zstd(std::string(size_t{65} << 20, 'a'))).string(),
      BRAID_TESTS_DIR "/formats/parquet/bombs/prefixes.parquet"};
  for (const std::string& path : paths) {
    EXPECT_FAILS(ReadEvaluationTexts(std::vector{path}), absl::StatusCode::kInvalidArgument,
                 "decontaminate.paths: " + path + " expands too far; decompress it first");
  }
}

TEST(EvaluationTextsTest, RefusesDamagedFilesAsBadInput) {
  const CraftedFiles files;
  const std::string whole = Gzip(RandomLines(1, 10'000));
  std::string parquet = *ReadFile(BRAID_TESTS_DIR "/formats/parquet/golden/gzip-1.parquet");
  parquet[38] = static_cast<char>(parquet[38] ^ 1);  // in its first page
  const std::string good = files.Write("good.txt", "text").string();
  for (const std::string& path :
       {files.Write("cut.txt.gz", whole.substr(0, whole.size() / 2)).string(),
        files.Write("a.parquet", parquet).string()}) {
    const std::vector<std::string> paths = {good, path};
    EXPECT_FAILS(ReadEvaluationTexts(paths), absl::StatusCode::kInvalidArgument,
                 "decontaminate.paths: " + path);
    EXPECT_EQ(CheckEvaluationTexts(paths), ReadEvaluationTexts(paths).status());
  }
  EXPECT_TRUE(CheckEvaluationTexts(std::vector{good}).ok());
}

TEST(EvaluationTextsTest, RefusesEntriesOfDirectoriesThatAreNotRead) {
  const CraftedFiles files;
  files.Write("t/a.txt", "text");
  files.Write("other/b.txt", "text");
  const std::vector<std::string> paths = {(files.directory() / "t").string()};
  std::filesystem::create_directory_symlink(files.directory() / "other",
                                            files.directory() / "t" / ".hidden");
  EXPECT_TRUE(ReadEvaluationTexts(paths).ok());
  std::filesystem::create_directory_symlink(files.directory() / "other",
                                            files.directory() / "t" / "link");
  const auto read = ReadEvaluationTexts(paths);
  ASSERT_TRUE(absl::IsInvalidArgument(read.status())) << read.status();
  EXPECT_THAT(std::string(read.status().message()), HasSubstr("t/link"));
  EXPECT_THAT(std::string(read.status().message()), HasSubstr("directory link"));
}

}  // namespace evaluation_texts_test
}  // namespace braid

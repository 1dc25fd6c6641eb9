#include "evaluation/tasks/task_files.h"

#include <google/protobuf/text_format.h>

#include <chrono>

#include "evaluation/tasks/delimited_text.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"

namespace braid {
namespace task_files_test {

using testing::ElementsAre;

v1::TaskFile File(const std::string& text) {
  v1::TaskFile file;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &file)) << text;
  return file;
}

class TaskFilesTest : public testing::Test {
 protected:
  absl::StatusOr<std::vector<TaskRecord>> Read(const std::string& file) {
    return ReadTaskFile(File(file), {}, scratch_.path());
  }
  std::string Field(const TaskRecord& record, const std::string& name) {
    return FieldText(record, name).value();
  }

  ScratchDirectory scratch_;
};

TEST_F(TaskFilesTest, CsvKeepsWhatQuotesHold) {
  ASSERT_OK_AND_ASSIGN(const auto rows,
                       ParseCsv("a,\"b, \"\"c\"\"\",\r\n\r\n\"two\nlines\",d\"e,f\n,", "x.csv"));
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_THAT(rows[0].cells, ElementsAre("a", "b, \"c\"", ""));
  EXPECT_THAT(rows[1].cells, ElementsAre("two\nlines", "d\"e", "f"));
  EXPECT_EQ(rows[1].line, 3);
  EXPECT_THAT(rows[2].cells, ElementsAre("", ""));
  EXPECT_EQ(rows[2].line, 5);
}

TEST_F(TaskFilesTest, MalformedCsvNamesTheLine) {
  EXPECT_FAILS(ParseCsv("a\nb,\"c\nd", "x.csv"), absl::StatusCode::kInvalidArgument, "x.csv:2",
               "not closed");
  EXPECT_FAILS(ParseCsv("a\n\"b\"c", "x.csv"), absl::StatusCode::kInvalidArgument, "x.csv:2");
}

TEST_F(TaskFilesTest, TsvTakesQuotesAsTextAndDropsTheByteOrderMark) {
  PutFile(scratch_ / "t.tsv", "\xEF\xBB\xBFone\ttwo\r\n\"x\ty\"\r\n");
  ASSERT_OK_AND_ASSIGN(const auto records, Read("path: 't.tsv' format: TSV_FILE header: true"));
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(Field(records[0], "one"), "\"x");
  EXPECT_EQ(Field(records[0], "two"), "y\"");
  EXPECT_THAT(records[0].where, testing::EndsWith("t.tsv:2"));
}

TEST_F(TaskFilesTest, WrongNumberOfCellsNamesTheLine) {
  PutFile(scratch_ / "t.tsv", "a\tb\nc\n");
  EXPECT_FAILS(Read("path: 't.tsv' format: TSV_FILE columns: ['x', 'y']"),
               absl::StatusCode::kInvalidArgument, "t.tsv:2", "got 1 cells, expected 2: x, y");
}

// Either column might be the one that is meant.
TEST_F(TaskFilesTest, ARepeatedNameOfAColumnIsNamed) {
  PutFile(scratch_ / "t.csv", "\nx,label,label\n1,a,b\n");
  EXPECT_FAILS(Read("path: 't.csv' format: CSV_FILE header: true"),
               absl::StatusCode::kInvalidArgument, "t.csv:2: got two columns \"label\"");
  PutFile(scratch_ / "t.tsv", "x\t\t\n1\ta\tb\n");
  ASSERT_OK_AND_ASSIGN(const auto records, Read("path: 't.tsv' format: TSV_FILE header: true"));
  EXPECT_EQ(Field(records.at(0), "x"), "1") << "columns without a name are not read";
}

TEST_F(TaskFilesTest, MalformedJsonNamesFileAndLine) {
  PutFile(scratch_ / "a.jsonl", "{\"x\": 1}\n\n{\"x\": }\n");
  EXPECT_FAILS(Read("path: 'a.jsonl' format: JSONL_FILE"), absl::StatusCode::kInvalidArgument,
               "a.jsonl:3");
  PutFile(scratch_ / "b.jsonl", "[1]\n");
  EXPECT_FAILS(Read("path: 'b.jsonl' format: JSONL_FILE"), absl::StatusCode::kInvalidArgument,
               "b.jsonl:1", "array");
  PutFile(scratch_ / "c.json", "{\"Rows\": [{\"x\": 1}, 2]}");
  EXPECT_FAILS(Read("path: 'c.json' format: JSON_FILE records: 'Rows'"),
               absl::StatusCode::kInvalidArgument, "c.json: record 2");
  EXPECT_FAILS(Read("path: 'c.json' format: JSON_FILE records: 'Data'"),
               absl::StatusCode::kInvalidArgument, "no key \"Data\"");
}

TEST_F(TaskFilesTest, BytesThatAreNotUtf8NameTheLine) {
  PutFile(scratch_ / "t.tsv", "na\xC3\xAFve\t1\nna\xEFve\t0\n");
  EXPECT_FAILS(Read("path: 't.tsv' format: TSV_FILE columns: ['x', 'y']"),
               absl::StatusCode::kInvalidArgument, "t.tsv:2: got bytes that are not UTF-8");
  PutFile(scratch_ / "t.csv", "x\n\"two\nlines\"\n\xFF\n");
  EXPECT_FAILS(Read("path: 't.csv' format: CSV_FILE header: true"),
               absl::StatusCode::kInvalidArgument, "t.csv:4: got bytes that are not UTF-8");
  PutFile(scratch_ / "a.jsonl", "{\"x\": 1}\n{\"x\": \"\xEF\"}\n");
  EXPECT_FAILS(Read("path: 'a.jsonl' format: JSONL_FILE"), absl::StatusCode::kInvalidArgument,
               "a.jsonl:2");
  PutFile(scratch_ / "a.jsonl", "{\"x\": 1}\n");
  PutFile(scratch_ / "a.lst", "\xEF\n");
  EXPECT_FAILS(Read("path: 'a.jsonl' format: JSONL_FILE labels: 'a.lst'"),
               absl::StatusCode::kInvalidArgument, "a.lst:1: got bytes that are not UTF-8");
}

TEST_F(TaskFilesTest, FilesThatCannotBeUsedAreNamed) {
  TaskFiles files;
  *files.Add() = File("path: 'a.tsv' format: TSV_FILE header: true columns: ['s', 'l']");
  EXPECT_EQ(WhyNoTaskFile(files, scratch_.path()), "");
  PutFile(scratch_ / "a.tsv", "");
  EXPECT_THAT(WhyNoTaskFile(files, scratch_.path()), testing::EndsWith("a.tsv: the file is empty"));
  PutFile(scratch_ / "a.tsv", "text\t1\n");
  EXPECT_THAT(WhyNoTaskFile(files, scratch_.path()),
              testing::EndsWith("a.tsv: the first line does not name the columns s, l"));
  PutFile(scratch_ / "b", "");
  for (const char* format : {"JSON_FILE", "JSONL_FILE", "TSV_FILE", "XML_FILE"}) {
    EXPECT_FAILS(Read(std::string("path: 'b' columns: 'x' records: 'r' format: ") + format),
                 absl::StatusCode::kInvalidArgument, "/b: the file is empty");
  }
}

TEST_F(TaskFilesTest, LabelsCanBeInASeparateFile) {
  PutFile(scratch_ / "a.jsonl", "{\"x\": 1}\n{\"x\": 2}\n");
  PutFile(scratch_ / "a.lst", "0\n1\n\n");
  const std::string file = "path: 'a.jsonl' format: JSONL_FILE labels: 'a.lst'";
  ASSERT_OK_AND_ASSIGN(const auto records, Read(file));
  EXPECT_EQ(Field(records[1], "label"), "1");
  PutFile(scratch_ / "a.lst", "0\n");
  EXPECT_FAILS(Read(file), absl::StatusCode::kInvalidArgument, "a.lst", "got 1 labels, expected 2");
}

TEST_F(TaskFilesTest, EachElementOfListsThatBelongTogetherIsARecord) {
  PutFile(scratch_ / "p1.txt", R"({"t": "T", "q": ["a", "b"], "o": [["x"], ["y", "z"]]})");
  PutFile(scratch_ / "p2.txt", R"({"t": "U", "q": ["c"], "o": [["w"]]})");
  const std::string file = "path: '*.txt' format: JSON_FILE each: ['q', 'o']";
  ASSERT_OK_AND_ASSIGN(const auto records, Read(file));
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(Field(records[1], "t") + Field(records[1], "q"), "Tb");
  EXPECT_THAT(FieldTexts(records[1], "o").value(), ElementsAre("y", "z"));
  EXPECT_EQ(Field(records[2], "q"), "c");
  PutFile(scratch_ / "p2.txt", R"({"t": "U", "q": ["c"], "o": []})");
  EXPECT_FAILS(Read(file), absl::StatusCode::kInvalidArgument, "p2.txt", "\"o\" has 0 elements");
}

// Such as a table that is stored by columns; with a copy of both lists for each element this takes
// minutes.
TEST_F(TaskFilesTest, LongListsAreReadInTimeInProportionToTheirLength) {
  constexpr int kElements = 40000;
  const nlohmann::json table = {{"q", std::vector<std::string>(kElements, "a question of words")},
                                {"a", std::vector<std::string>(kElements, "an answer of words")}};
  PutFile(scratch_ / "a.json", table.dump());
  const auto start = std::chrono::steady_clock::now();
  ASSERT_OK_AND_ASSIGN(const auto records,
                       Read("path: 'a.json' format: JSON_FILE each: ['q', 'a']"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  EXPECT_EQ(records.size(), size_t{kElements});
}

TEST_F(TaskFilesTest, ListsOfElementsAreFieldsOfTheRecord) {
  PutFile(scratch_ / "a.json", R"([{"p": {"q": ["a", "b"]}, "t": "T"}])");
  const std::string file = "path: 'a.json' format: JSON_FILE each: ";
  EXPECT_FAILS(Read(file + "'p.q'"), absl::StatusCode::kInvalidArgument, "a.json: record 1",
               "no field \"p.q\" for each");
  EXPECT_FAILS(Read(file + "'t'"), absl::StatusCode::kInvalidArgument, "\"t\" is not a list");
}

TEST_F(TaskFilesTest, ElementsOfXmlAreRecords) {
  PutFile(scratch_ / "a.xml", "<all>\n<p id='7'><q>why?</q></p>\n<p id='8'><q/></p></all>");
  ASSERT_OK_AND_ASSIGN(const auto records, Read("path: 'a.xml' format: XML_FILE records: 'p'"));
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(Field(records[0], "id") + Field(records[0], "q"), "7why?");
  EXPECT_THAT(records[1].where, testing::EndsWith("a.xml:3"));
  ASSERT_OK_AND_ASSIGN(const auto none, Read("path: 'a.xml' format: XML_FILE records: 'r'"));
  EXPECT_TRUE(none.empty());
}

TEST_F(TaskFilesTest, TheFirstFormatThatFitsIsTaken) {
  TaskFiles files;
  *files.Add() = File("path: 'a.tsv' format: TSV_FILE header: true columns: ['s', 'l']");
  *files.Add() = File("path: 'a.tsv' format: TSV_FILE columns: ['x', 'y']");
  ASSERT_OK_AND_ASSIGN(const v1::TaskFile* found, FindTaskFile(files, scratch_.path()));
  EXPECT_EQ(found, nullptr);
  PutFile(scratch_ / "a.tsv", "l\ts\n1\ttext\n");
  ASSERT_OK_AND_ASSIGN(found, FindTaskFile(files, scratch_.path()));
  EXPECT_EQ(found, &files[0]);
  PutFile(scratch_ / "a.tsv", "text\t1\n");
  ASSERT_OK_AND_ASSIGN(found, FindTaskFile(files, scratch_.path()));
  EXPECT_EQ(found, &files[1]);
}

TEST_F(TaskFilesTest, FieldsAreMatchedReplacedSplitAndRenamed) {
  PutFile(scratch_ / "a.jsonl", R"({"t": "Q: why?\nA1: x  y A2: z", "n": "5 stars"})");
  const std::string head = "path: 'a.jsonl' format: JSONL_FILE ";
  ASSERT_OK_AND_ASSIGN(
      const auto records,
      Read(head + "fields { name: 'q' from: 't' match: 'Q: (.*)' } "
                  "fields { name: 'c' from: 't' match: '(?s)\\n(A1.*)' split: 'A[0-9]: ' "
                  "  replace { pattern: ' +' with: '-' } } "
                  "fields { name: 'both' from: 'q' from: 'n' } "
                  "fields { name: 'l' from: 'n' values { is: '5 stars' becomes: 'good' } }"));
  EXPECT_EQ(Field(records[0], "q"), "why?");
  EXPECT_THAT(FieldTexts(records[0], "both").value(), ElementsAre("why?", "5 stars"));
  EXPECT_EQ(Field(records[0], "l"), "good");
  EXPECT_FAILS(Read(head + "fields { name: 'q' from: 't' match: 'R: (.*)' }"),
               absl::StatusCode::kInvalidArgument, "a.jsonl:1", "does not match");
  EXPECT_FAILS(Read(head + "fields { name: 'l' from: 'n' values { is: '4' becomes: 'x' } }"),
               absl::StatusCode::kInvalidArgument, "a.jsonl:1", "expected one of 4");
  ASSERT_OK_AND_ASSIGN(const auto none,
                       Read(head + "fields { name: 'l' from: 'n' values { is: '5 stars' "
                                   "skip: true } }"));
  EXPECT_TRUE(none.empty());
}

}  // namespace task_files_test
}  // namespace braid

#include "pipeline/supervised/record_sources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/base/crafted_files.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"

namespace braid {
namespace record_sources_test {

using absl::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;
using Fields = std::map<std::string, std::string>;

class RecordSourcesTest : public testing::Test {
 protected:
  absl::StatusOr<RecordSet> Read(const std::string& text, const std::string& format = "",
                                 const Fields& fields = {}) {
    PutFile(scratch_ / "data.jsonl", text);
    return ReadRecordFiles(std::vector<std::string>{(scratch_ / "data.jsonl").string()}, format,
                           fields);
  }

  // Returns the turns of the only record as "role:text|...".
  std::string Turns(const std::string& text, const std::string& format = "",
                    const Fields& fields = {}) {
    const absl::StatusOr<RecordSet> set = Read(text, format, fields);
    EXPECT_OK(set.status());
    if (!set.ok() || set->records.size() != 1) return "";
    std::string turns;
    for (const ChatTurn& turn : set->records[0].turns) {
      turns += turns.empty() ? "" : "|";
      turns += std::string(1, "sua"[static_cast<size_t>(turn.role)]) + ":" + turn.text;
      if (!turn.input.empty()) turns += "+" + turn.input;
    }
    return turns;
  }

  // Expects that the text is refused with its file and line.
  template <class... Texts>
  void ExpectError(const std::string& text, int line, Texts... texts) {
    const absl::Status status = Read(text).status();
    EXPECT_FAILS(status, StatusCode::kInvalidArgument,
                 (scratch_ / "data.jsonl").string() + ":" + std::to_string(line) + ": ", texts...);
  }

  // Expects that the only record is rejected for a reason.
  void ExpectRejected(const std::string& text, const std::string& reason) {
    ASSERT_OK_AND_ASSIGN(const RecordSet set, Read(text));
    ASSERT_THAT(set.rejected, SizeIs(1)) << text;
    EXPECT_EQ(set.rejected[0].reason, reason);
    EXPECT_THAT(set.rejected[0].place, HasSubstr("data.jsonl:1"));
  }

  ScratchDirectory scratch_;
};

constexpr char kAlpacaRecord[] = R"({"instruction": "Add.", "input": "1 2", "output": "3"})";

TEST_F(RecordSourcesTest, RecognizesEachFormat) {
  EXPECT_EQ(Turns(kAlpacaRecord), "u:Add.+1 2|a:3");
  EXPECT_EQ(Turns(R"({"instruction":"Hi","output":"Ho","system":"S","history":[["a","b"]]})"),
            "s:S|u:a|a:b|u:Hi|a:Ho");
  EXPECT_EQ(Turns(R"({"conversations":[{"from":"human","value":"x"},{"from":"gpt","value":"y"}]})"),
            "u:x|a:y");
  EXPECT_EQ(Turns(R"([{"messages":[{"role":"system","content":"s"},
                                   {"role":"user","content":"x"},
                                   {"role":"assistant","content":"y"},
                                   {"role":"user","content":"unanswered"}]}])"),
            "s:s|u:x|a:y");
  EXPECT_EQ(Turns(R"({"prompt": "2+2=", "completion": "4"})"), "u:2+2=|a:4");
  EXPECT_EQ(Turns(R"({"text": "once"})"), "a:once");
}

TEST_F(RecordSourcesTest, ReadsFieldsOfOtherNames) {
  EXPECT_EQ(Turns(R"({"question": "q", "reply": "r"})", "prompt",
                  {{"prompt", "question"}, {"answer", "reply"}}),
            "u:q|a:r");
  EXPECT_EQ(Turns(R"({"instruction": "q", "reply": "r"})", "", {{"answer", "reply"}}), "u:q|a:r");
  EXPECT_FAILS(Read(kAlpacaRecord, "alpaka"), StatusCode::kInvalidArgument, "got alpaka");
  EXPECT_FAILS(Read(kAlpacaRecord, "", {{"reply", "x"}}), StatusCode::kInvalidArgument,
               "--field: got reply=x");
}

TEST_F(RecordSourcesTest, ReadsArraysAndCompressedFilesWithLines) {
  ASSERT_OK_AND_ASSIGN(const RecordSet set,
                       Read("[\n {\"prompt\": \"a]}\\\"\", \"completion\": \"b\"},\n\n {\n"
                            "  \"prompt\": \"c\", \"completion\": \"d\"}\n]\n"));
  ASSERT_THAT(set.records, SizeIs(2));
  EXPECT_THAT(set.records[0].place, HasSubstr("data.jsonl:2"));
  EXPECT_EQ(set.records[0].turns[0].text, "a]}\"");
  EXPECT_THAT(set.records[1].place, HasSubstr("data.jsonl:4"));

  const std::string path = (scratch_ / "data.jsonl.gz").string();
  gzFile file = gzopen(path.c_str(), "wb");
  gzputs(file, (std::string(kAlpacaRecord) + "\n\n" + kAlpacaRecord).c_str());
  gzclose(file);
  ASSERT_OK_AND_ASSIGN(const RecordSet packed,
                       ReadRecordFiles(std::vector<std::string>{path}, "", {}));
  ASSERT_THAT(packed.records, SizeIs(2));
  EXPECT_EQ(packed.records[1].place, path + ":3");
  EXPECT_EQ(packed.sources[0].format, "alpaca");
}

TEST_F(RecordSourcesTest, ACompressedFileThatIsCutShortIsBadInput) {
  const std::string text = std::string(kAlpacaRecord) + "\n" + kAlpacaRecord + "\n";
  for (const auto& [name, bytes] :
       {std::pair("cut.jsonl.gz", Gzip(text)), std::pair("cut.jsonl.zst", Zstd(text))}) {
    PutFile(scratch_ / name, bytes.substr(0, bytes.size() - 6));
    const std::string path = (scratch_ / name).string();
    EXPECT_FAILS(ReadRecordFiles(std::vector<std::string>{path}, "", {}),
                 StatusCode::kInvalidArgument, path, "cut short");
  }
}

TEST_F(RecordSourcesTest, ElementsThatBeginOnOneLineHavePlacesOfTheirOwn) {
  const std::string one = R"({"prompt": "a", "completion": "b"})";
  ASSERT_OK_AND_ASSIGN(const RecordSet set,
                       Read("[" + one + ", " + one + ",\n" + one + "," + one + "," + one + "]"));
  const std::string file = (scratch_ / "data.jsonl").string();
  std::vector<std::string> places;
  for (const SupervisedRecord& record : set.records) places.push_back(record.place);
  EXPECT_THAT(places,
              ElementsAre(file + ":1", file + ":1#2", file + ":2", file + ":2#2", file + ":2#3"));
  EXPECT_FAILS(Read("[" + one + ", " + one + ", 7]"), StatusCode::kInvalidArgument,
               "data.jsonl:1#3: got number");
}

TEST_F(RecordSourcesTest, AFileIsReadOnce) {
  PutFile(scratch_ / "data.jsonl", kAlpacaRecord);
  const std::string file = (scratch_ / "data.jsonl").string();
  const std::string again = (scratch_ / "." / "data.jsonl").string();
  for (const std::string& second : {file, again}) {
    EXPECT_FAILS(ReadRecordFiles(std::vector<std::string>{file, second}, "", {}),
                 StatusCode::kInvalidArgument, second + ": got the file twice", file + "=2");
  }
}

TEST_F(RecordSourcesTest, RenamedPartsMustBelongToAFormatThatIsRead) {
  EXPECT_FAILS(Read(R"({"prompt": "a", "completion": "b"})", "", {{"history", "x"}}),
               StatusCode::kInvalidArgument, "--field: got history=x", "prompt has prompt, answer");
  // One of several files with the part suffices.
  PutFile(scratch_ / "chats.jsonl",
          R"({"messages":[{"who":"user","content":"x"},{"who":"assistant","content":"y"}]})");
  PutFile(scratch_ / "data.jsonl", kAlpacaRecord);
  const std::vector<std::string> both = {(scratch_ / "chats.jsonl").string(),
                                         (scratch_ / "data.jsonl").string()};
  EXPECT_OK(ReadRecordFiles(both, "", {{"role", "who"}, {"input", "input"}}));
}

TEST_F(RecordSourcesTest, NamesFileAndLineOfWhatIsNotARecord) {
  const std::string good = std::string(kAlpacaRecord) + "\n";
  ExpectError(good + "{\"instruction\": \n", 2, "expected a JSON object");
  ExpectError(good + "nonsense\n", 2, "got nonsense");
  ExpectError(good + "\n[1]\n", 3, "got array, expected an object");
  ExpectError("[" + good + ", 7]", 2, "got number, expected an object");
  ExpectError("[" + good, 2, "got the end of the file");
  ExpectError("[" + good + "] x", 2, "got text after the array");
  ExpectError("[" + good + " " + good + "]", 2, "expected ',' between elements");
  ExpectError(good + "{\"instruction\": \"\xff\", \"output\": \"a\"}\n", 2, "not UTF-8");
  ExpectError(good + R"({"instruction": "a", "instruction": "b", "output": "c"})", 2,
              "repeated key");
  ExpectError(good + R"({"prompt": "a", "completion": "b"})", 2,
              "instruction: got no such field among completion, prompt",
              "a record of the format alpaca");
  ExpectError(R"({"instruktion": "a", "output": "b"})", 1, "got the fields instruktion, output",
              "alpaca (instruction, output)");
  ExpectError(good + R"({"instruction": "a", "outptu": "b"})", 2,
              "did you mean --field answer=outptu");
  ExpectError(good + R"({"instruction": "a", "inputs": "i", "output": "b"})", 2,
              "inputs: got an unknown field, expected input");
  ExpectError(good + R"({"instruction": "a", "output": 4})", 2, "output: got 4, expected a string");
  ExpectError(R"({"messages": [{"role": "tool", "content": "x"}]})", 1,
              R"(messages[0].role: got "tool", expected system, user)");
  ExpectError(R"({"messages": [{"role": "user"}]})", 1, "messages[0].content: got no such field");
  EXPECT_FAILS(Read("\n \n"), StatusCode::kInvalidArgument, "got no records");
}

TEST_F(RecordSourcesTest, RejectsContentWithItsReason) {
  ExpectRejected(R"({"instruction": "a", "output": ""})", "empty answer");
  ExpectRejected(R"({"instruction": "a", "output": null})", "empty answer");
  ExpectRejected(R"({"instruction": "a", "output": " \n\t"})", "answer of only white space");
  ExpectRejected(R"({"instruction": " ", "output": "b"})", "empty prompt");
  ExpectRejected(R"({"messages": []})", "no answer");
  ExpectRejected(R"({"messages": [{"role": "user", "content": "x"}]})", "no answer");
  ExpectRejected(R"({"messages": [{"role": "assistant", "content": "x"}]})", "roles out of order");
  ExpectRejected(R"([{"messages": [{"role": "user", "content": "x"},
                                   {"role": "user", "content": "y"},
                                   {"role": "assistant", "content": "z"}]}])",
                 "roles out of order");
  ExpectRejected(R"([{"messages": [{"role": "user", "content": "x"},
                                   {"role": "system", "content": "y"},
                                   {"role": "assistant", "content": "z"}]}])",
                 "roles out of order");
}

}  // namespace record_sources_test
}  // namespace braid

// Every built-in task reads a file in its format and builds the right prompts: what a model sees of
// the first two examples is compared with golden/TASK.txt. BRAID_UPDATE_GOLDEN=1 rewrites these
// files; review the difference before committing it.
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "evaluation/tasks/task_prompt.h"
#include "evaluation/tasks/task_spec.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"
#include "tests/evaluation/tasks/sample_tasks.h"

namespace braid {
namespace builtin_tasks_test {

// With one demonstration, so that delimiter and separator are visible.
std::string Shown(const LoadedTask& task, int64_t index) {
  const TaskExample& example = task.examples[static_cast<size_t>(index)];
  const DemonstrationSet set(task, 1, 0, ByteCodec());
  const auto shots = set.For(example);
  std::string text;
  for (const std::string& prompt : example.prompts) {
    absl::StrAppend(&text, "<prompt>", PromptText(task.spec, shots, prompt), "</prompt>\n");
  }
  for (const std::string& choice : example.continuations) {
    absl::StrAppend(&text, "<choice>", DelimiterOf(task.spec), choice, "</choice>\n");
  }
  if (task.spec.has_choice()) absl::StrAppend(&text, "<gold>", example.gold, "</gold>\n");
  for (const std::string& reference : example.references) {
    absl::StrAppend(&text, "<answer>", reference, "</answer>\n");
  }
  return text;
}

TEST(BuiltinTasksTest, PromptsAreAsWritten) {
  ASSERT_OK_AND_ASSIGN(const std::vector<v1::TaskSpec> specs, BuiltinTasks());
  for (const v1::TaskSpec& spec : specs) {
    SCOPED_TRACE(spec.name());
    ASSERT_OK_AND_ASSIGN(const LoadedTask task, LoadTask(spec, SampleDirectory(), 1));
    ASSERT_GE(task.examples.size(), 2u);
    const std::string shown = Shown(task, 0) + "\n" + Shown(task, 1);
    if (std::getenv("BRAID_UPDATE_GOLDEN") != nullptr) PutFile(GoldenPath(spec.name()), shown);
    EXPECT_EQ(shown, GetFile(GoldenPath(spec.name())));
  }
}

// Formats of copies that differ from the originals.
TEST(BuiltinTasksTest, ReadsOtherFormats) {
  ScratchDirectory scratch;
  const auto put = [&](const std::string& path, const std::string& text) {
    std::filesystem::create_directories((scratch / path).parent_path());
    PutFile(scratch / path, text);
  };
  put("arc_easy/test.json",
      R"([{"instruction": "Please choose the correct answer to the question: What melts ice?)"
      R"(\n\nAnswer1: heat Answer2: shade, or so Answer3: frost\n\n)"
      R"(Answer format: answer1/answer2/answer3", "input": "", "output": "x", "answer": "answer2"}])");
  put("yelp/test.csv",
      "text,label1,label2\nFine.,Business Category: Bars,Review Stars: 3.0\n"
      "\"Good, really.\",Business Category: Bars,Review Stars: 5.0\n");
  put("amazon/amazon_cells_labelled.txt", "\"Nice, \"\"loud\"\" one.\"\t1\nBad.\t0\n");
  put("ag_news/test.csv", R"("3","S #39;s &lt;b&gt; up","5\\\\6, #36;7 &amp;quot;")");
  put("sst2/dev.tsv", "a fine film\t1\n");
  put("triviaqa/test.jsonl",
      R"({"id": "1", "question": "\"Who said \"\"go\"\"?\"", "golden_answers": ["A", "B"]})");
  put("fever/fever_labelled_dev.json", R"([{"claim": "C.", "label": "SUPPORTS"}])");
  const auto load = [&](const std::string& name) {
    return LoadTask(BuiltinTask(name).value(), scratch.path(), 0).value();
  };
  const LoadedTask arc = load("arc_e");
  EXPECT_EQ(arc.examples[0].prompts[0], "Question: What melts ice?\nAnswer:");
  EXPECT_THAT(arc.examples[0].continuations, testing::ElementsAre("heat", "shade, or so", "frost"));
  EXPECT_EQ(arc.examples[0].gold, 1);
  const LoadedTask yelp = load("yelp");
  ASSERT_EQ(yelp.examples.size(), 1u);
  EXPECT_THAT(yelp.examples[0].prompts[0], testing::StartsWith("Good, really.\nQuestion"));
  EXPECT_EQ(yelp.examples[0].gold, 1);
  EXPECT_THAT(load("amazon").examples[0].prompts[0], testing::StartsWith("Nice, \"loud\" one.\n"));
  EXPECT_EQ(load("amazon").examples[1].gold, 0);
  std::filesystem::remove(scratch / "amazon/amazon_cells_labelled.txt");
  put("amazon/test.csv", R"("2","Nice","A \""loud\"" one.\nGo.")");
  EXPECT_THAT(load("amazon").examples[0].prompts[0],
              testing::StartsWith("Nice. A \"loud\" one. Go.\n"));
  EXPECT_THAT(load("agnews").examples[0].prompts[0],
              testing::StartsWith("S's <b> up\n5 6, $7 &quot;\nQuestion"));
  EXPECT_EQ(load("sst2").examples[0].gold, 1);
  EXPECT_EQ(load("triviaqa").examples[0].prompts[0], "Question: Who said \"go\"?\nAnswer:");
  EXPECT_EQ(load("fever").examples[0].gold, 0);
}

// Numbers take the place of their names, wherever these stand, so that a model tuned on MAWPS reads
// and writes what SVAMP has.
TEST(BuiltinTasksTest, ProblemsOfMawpsGetTheirNumbersBackForSvamp) {
  ScratchDirectory scratch;
  std::filesystem::create_directories(scratch / "svamp");
  std::filesystem::create_directories(scratch / "mawps");
  std::filesystem::copy(SampleDirectory() / "svamp/SVAMP.json", scratch / "svamp/SVAMP.json");
  PutFile(scratch / "mawps/train.csv",
          "Question,Numbers,Equation\n"
          "Find number1 and number0 .,-2.0 0.5,- * number0 number0 / number1 + number0 10.0\n"
          "\"a number0 b number1 c number2 d number3 e number4 f number5 g number6\","
          "10.0 21.0 32.0 43.0 54.5 65.0 76.0,+ number6 number0\n"
          "No numbers of number0,3.0,3.0\n");
  ASSERT_OK_AND_ASSIGN(const LoadedTask task,
                       LoadTask(BuiltinTask("svamp").value(), scratch.path(), 1));
  ASSERT_EQ(task.others.size(), 3u);
  const auto shown = [&](size_t i) {
    return task.others[i].prompts[0] + " " + task.others[i].references[0];
  };
  EXPECT_EQ(shown(0), "Problem: Find 0.5 and -2 .\nEquation: - * -2 -2 / 0.5 + -2 10");
  EXPECT_EQ(shown(1), "Problem: a 10 b 21 c 32 d 43 e 54.5 f 65 g 76\nEquation: + 76 10");
  EXPECT_EQ(shown(2), "Problem: No numbers of 3\nEquation: 3");
}

TEST(BuiltinTasksTest, AnEquationThatIsNoneIsAnErrorOfItsRecord) {
  ScratchDirectory scratch;
  std::filesystem::create_directories(scratch / "svamp");
  std::filesystem::create_directories(scratch / "mawps");
  PutFile(scratch / "mawps/train.csv", "Question,Numbers,Equation\na number0,3.0,number0\n");
  PutFile(scratch / "svamp/SVAMP.json",
          R"json([{"Body": "b", "Question": "q", "Equation": "( 3.0 - )"}])json");
  EXPECT_FAILS(LoadTask(BuiltinTask("svamp").value(), scratch.path(), 0).status(),
               absl::StatusCode::kInvalidArgument, "SVAMP.json",
               "\"( 3 - )\" is not an arithmetic expression");
}

TEST(BuiltinTasksTest, ErrorsInRecordsNameTheirPlace) {
  ScratchDirectory scratch;
  std::filesystem::create_directories(scratch / "piqa");
  const auto load = [&](const std::string& record, const std::string& label) {
    PutFile(scratch / "piqa/valid.jsonl", R"({"goal": "g", "sol1": "a", "sol2": "b"})"
                                          "\n" +
                                              record + "\n");
    PutFile(scratch / "piqa/valid-labels.lst", "0\n" + label + "\n");
    return LoadTask(BuiltinTask("piqa").value(), scratch.path(), 0).status();
  };
  EXPECT_FAILS(load(R"({"goal": "g", "sol1": "a", "sol2": "b"})", "2"),
               absl::StatusCode::kInvalidArgument, "valid.jsonl:2", "got \"2\"", "0, 1");
  EXPECT_FAILS(load(R"({"goal": "g", "sol1": "a", "sol2": ""})", "1"),
               absl::StatusCode::kInvalidArgument, "valid.jsonl:2", "empty");
  EXPECT_FAILS(load(R"({"aim": "g", "sol1": "a", "sol2": "b"})", "1"),
               absl::StatusCode::kInvalidArgument, "valid.jsonl:2", "no field \"goal\"", "aim");
  EXPECT_FAILS(LoadTask(BuiltinTask("siqa").value(), scratch.path(), 0),
               absl::StatusCode::kNotFound, "siqa/dev.jsonl + dev-labels.lst");
}

}  // namespace builtin_tasks_test
}  // namespace braid

#include "evaluation/tasks/task_spec.h"

#include <set>

#include "tests/base/status_matchers.h"

namespace braid {
namespace task_spec_test {

constexpr char kGood[] = R"(name: "capitals"
examples { path: "a.jsonl" format: JSONL_FILE }
prompt: "{country}:"
choice { choices: "{x}" choices: "{y}" gold: "{g}" labels: "1" labels: "2" }
figures: ACC
)";

std::string With(const std::string& from, const std::string& to) {
  std::string text = kGood;
  text.replace(text.find(from), from.size(), to);
  return text;
}

std::string Number(const std::string& answer, const std::string& figure) {
  return "name: 'n' examples { path: 'a.jsonl' format: JSONL_FILE } prompt: '{q}' " + answer +
         " figures: " + figure;
}

TEST(TaskSpecTest, AllTasksAreBuiltIn) {
  ASSERT_OK_AND_ASSIGN(const std::vector<v1::TaskSpec> tasks, BuiltinTasks());
  std::set<std::string> names;
  for (const v1::TaskSpec& task : tasks) {
    names.insert(task.name());
    EXPECT_FALSE(task.title().empty()) << task.name();
    EXPECT_FALSE(task.source().empty()) << task.name();
  }
  EXPECT_EQ(names, (std::set<std::string>{"agnews", "amazon", "arc_c",    "arc_e",      "boolq",
                                          "cola",   "e2e",    "fever",    "hellaswag",  "mawps",
                                          "mrpc",   "nq",     "piqa",     "race_h",     "race_m",
                                          "siqa",   "sst2",   "triviaqa", "winogrande", "yelp",
                                          "asdiv",  "stsb",   "svamp"}));
}

TEST(TaskSpecTest, UnknownTaskNamesTheNearest) {
  EXPECT_FAILS(BuiltinTask("hellaswags"), absl::StatusCode::kNotFound, "nearest: hellaswag");
}

TEST(TaskSpecTest, RefusesWhatCannotBeUsed) {
  ASSERT_OK(ParseTaskSpec(kGood, "my.textproto"));
  ASSERT_OK(ParseTaskSpec(Number("number { gold: 'n' }", "PEARSON"), "my.textproto"));
  const std::pair<std::string, std::string> broken[] = {
      {With("prompt:", "promt:"), "prompt"},
      {With("capitals", "Capital Cities"), "name"},
      {With("{country}:", "{country:"), "brace"},
      {With("a.jsonl", "../../secret"), "\"..\""},
      {With("a.jsonl", "/etc/passwd"), "relative"},
      {With(" format: JSONL_FILE", ""), "format"},
      {With("labels: \"2\"", ""), "1 labels for 2 choices"},
      {With("gold: \"{g}\"", ""), "gold"},
      {With("figures: ACC", "figures: EXACT_MATCH"), "exact_match"},
      {With("figures: ACC", "figures: F1"), "positive"},
      {With("figures: ACC", ""), "figures"},
      {With("JSONL_FILE }", "JSONL_FILE fields { name: 'x' from: 'y' match: '(' } }"), "pattern"},
      {With("JSONL_FILE }", "JSONL_FILE fields { name: 'x' from: 'y' match: 'z' } }"), "group"},
      {With("JSONL_FILE }", "TSV_FILE }"), "columns"},
      {With("JSONL_FILE }", "XML_FILE }"), "records: expected the name of an element"},
      {With("figures: ACC", "figures: PEARSON"), "pearson is not one of choices"},
      {Number("number { gold: 'n' }", "ACC"), "acc is not one of numbers"},
      {Number("number { gold: 'n' }", "ANSWER_LOSS"), "answer_loss is not one of numbers"},
      {Number("number { }", "PEARSON"), "number.gold is missing"},
      {Number("free { references_from: 'n' }", "PEARSON"), "pearson is not one of free answers"},
      {Number("", "PEARSON"), "or number { ... }"},
      {Number("free { references_from: 'n' stop: '' }", "EXACT_MATCH"), "free.stop"},
      {Number("free { references_from: 'n' max_tokens: -1 }", "EXACT_MATCH"), "max_tokens: got -1"},
  };
  for (const auto& [text, message] : broken) {
    EXPECT_FAILS(ParseTaskSpec(text, "my.textproto"), absl::StatusCode::kInvalidArgument,
                 "my.textproto", message);
  }
}

TEST(TaskSpecTest, ListsTheFilesItLooksFor) {
  EXPECT_EQ(ExpectedFiles(BuiltinTask("piqa").value()), "piqa/valid.jsonl + valid-labels.lst");
  EXPECT_EQ(ExpectedFiles(BuiltinTask("arc_e").value()),
            "arc_easy/ARC-Easy-Test.jsonl, or arc_easy/test.json");
  EXPECT_EQ(ExpectedFiles(BuiltinTask("svamp").value()), "svamp/SVAMP.json");
}

}  // namespace task_spec_test
}  // namespace braid

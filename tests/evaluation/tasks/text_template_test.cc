#include "evaluation/tasks/text_template.h"

#include "tests/base/status_matchers.h"

namespace braid {
namespace text_template_test {

TaskRecord Record() {
  return {nlohmann::json::parse(R"({"a": " Hello WORLD ", "n": 7, "t": true, "z": null,
            "q": {"stem": "why_not", "choices": [{"text": "x"}, {"text": "y"}]}})"),
          "sample.jsonl:3"};
}

std::string Render(const std::string& text) {
  const TextTemplate parsed = TextTemplate::Parse(text, "test").value();
  return parsed.Render(Record()).value();
}

TEST(TextTemplateTest, PutsFieldsBetweenBraces) {
  EXPECT_EQ(Render("{n}{t} {q.stem}: {{x}}"), "7true why_not: {x}");
  EXPECT_EQ(Render("no field"), "no field");
}

TEST(TextTemplateTest, FiltersFollowEachOther) {
  EXPECT_EQ(Render("[{a|strip}]"), "[Hello WORLD]");
  EXPECT_EQ(Render("{a|strip|capitalize}"), "Hello world");
  EXPECT_EQ(Render("{a|lower|strip|suffix:?}"), "hello world?");
  EXPECT_EQ(Render("{q.stem|suffix:not}"), "why_not");
  EXPECT_EQ(Render("{q.stem|before:_}-{q.stem|after:_}"), "why-not");
}

TEST(TextTemplateTest, ChoiceIsAFieldOnlyWhenGiven) {
  const TextTemplate text = TextTemplate::Parse("<{choice|strip}>", "test").value();
  EXPECT_TRUE(text.Uses("choice"));
  EXPECT_EQ(text.Render(Record(), " c ").value(), "<c>");
  EXPECT_FAILS(text.Render(Record()), absl::StatusCode::kInvalidArgument, "choice");
}

TEST(TextTemplateTest, UnknownFieldsNamePlaceAndKnownFields) {
  const TextTemplate text = TextTemplate::Parse("{b}", "test").value();
  EXPECT_FAILS(text.Render(Record()), absl::StatusCode::kInvalidArgument, "sample.jsonl:3",
               "no field \"b\"", "a, n, q, t, z");
  EXPECT_FAILS(FieldText(Record(), "q.step"), absl::StatusCode::kInvalidArgument, "choices, stem");
  EXPECT_FAILS(FieldText(Record(), "z"), absl::StatusCode::kInvalidArgument, "null");
  EXPECT_FAILS(FieldText(Record(), "q.choices[].text"), absl::StatusCode::kInvalidArgument,
               "array");
  EXPECT_FAILS(FieldTexts(Record(), "q.stem[].x"), absl::StatusCode::kInvalidArgument,
               "not a list");
}

TEST(TextTemplateTest, PathsReachIntoLists) {
  EXPECT_THAT(FieldTexts(Record(), "q.choices[].text").value(), testing::ElementsAre("x", "y"));
  EXPECT_THAT(FieldTexts(Record(), "n").value(), testing::ElementsAre("7"));
}

TEST(TextTemplateTest, RefusesMalformedTemplates) {
  for (const char* text : {"{a", "a}", "{}", "{a|loud}", "{a|suffix}", "{a|strip:x}"}) {
    EXPECT_FAILS(TextTemplate::Parse(text, "task \"t\""), absl::StatusCode::kInvalidArgument,
                 "task \"t\"");
  }
  const TextTemplate gap = TextTemplate::Parse("{n|before:_}", "test").value();
  EXPECT_FAILS(gap.Render(Record()), absl::StatusCode::kInvalidArgument, "sample.jsonl:3",
               "no \"_\" in \"7\"");
}

}  // namespace text_template_test
}  // namespace braid

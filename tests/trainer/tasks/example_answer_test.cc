#include "trainer/evaluation/tasks/example_answer.h"

#include <algorithm>
#include <set>

#include "tests/formats/status_matchers.h"
#include "tests/trainer/tasks/fake_decoder.h"
#include "tests/trainer/tasks/sample_tasks.h"
#include "trainer/evaluation/tasks/task_spec.h"
#include "trainer/evaluation/tasks/text_template.h"

namespace braid {
namespace {

constexpr int kVocabulary = 257;
constexpr int64_t kContext = 2048;

std::vector<int32_t> Tokens(const std::string& text) { return ByteCodec().encode(text); }

std::vector<int32_t> AfterEos(const std::string& text) {
  std::vector<int32_t> tokens = Tokens(text);
  tokens.insert(tokens.begin(), 0);
  return tokens;
}

ExampleAnswer Ask(const LoadedTask& task, int64_t example, int shots, int64_t context = kContext) {
  FakeDecoder decoder(kVocabulary, context);
  return AnswerExample(task, example, {shots, 5, context}, ByteCodec(), decoder).value();
}

TEST(ExampleAnswerTest, ScoresAreThoseOfTokensOneByOne) {
  ASSERT_OK_AND_ASSIGN(const std::vector<v1::TaskSpec> specs, BuiltinTasks());
  for (const v1::TaskSpec& spec : specs) {
    if (spec.has_free()) continue;
    SCOPED_TRACE(spec.name());
    const LoadedTask task = SampleTask(spec.name());
    for (const int shots : {0, 1}) {
      const ExampleAnswer answer = Ask(task, 1, shots);
      const TaskExample& example = task.examples[1];
      ASSERT_EQ(answer.choices.size(), example.continuations.size());
      for (size_t i = 0; i < example.continuations.size(); ++i) {
        const std::string& prompt = example.prompts[example.prompts.size() == 1 ? 0 : i];
        const std::string text = PromptText(task, DrawDemonstrations(task, 1, shots, 5), prompt);
        const std::vector<int32_t> choice = Tokens(" " + example.continuations[i]);
        EXPECT_NEAR(answer.choices[i].log_prob, SlowScore(AfterEos(text), choice, kVocabulary),
                    1e-3);
        EXPECT_EQ(answer.choices[i].num_tokens, static_cast<int64_t>(choice.size()));
      }
    }
  }
}

TEST(ExampleAnswerTest, UnconditionalScoresFollowTheirContextAlone) {
  const LoadedTask task = SampleTask("race_h");
  const ExampleAnswer answer = Ask(task, 0, 1);
  for (size_t i = 0; i < answer.choices.size(); ++i) {
    const auto choice = Tokens(" " + task.examples[0].continuations[i]);
    EXPECT_NEAR(answer.choices[i].unconditional_log_prob,
                SlowScore(AfterEos("Answer:"), choice, kVocabulary), 1e-3);
  }
}

TEST(ExampleAnswerTest, SpacesAtTheEndOfTheContextGoToTheContinuation) {
  const std::vector<std::string> continuations = {"b"};
  const ScoredPrompt prompt = EncodePair(ByteCodec(), "a \n", continuations);
  EXPECT_EQ(prompt.context, AfterEos("a"));
  EXPECT_EQ(prompt.continuations[0], Tokens(" \nb"));
  EXPECT_EQ(EncodePair(ByteCodec(), "", continuations).context, AfterEos(""));
}

TEST(ExampleAnswerTest, DemonstrationsAreSeededAndNeverTheExampleItself) {
  const LoadedTask task = SampleTask("piqa");
  ASSERT_TRUE(task.demonstrations_are_examples);
  std::set<std::vector<int64_t>> seen;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    for (int64_t example = 0; example < 3; ++example) {
      const auto drawn = DrawDemonstrations(task, example, 9, seed);
      EXPECT_EQ(drawn.size(), 2u);
      EXPECT_NE(drawn[0], drawn[1]);
      EXPECT_EQ(std::ranges::count(drawn, example), 0);
      EXPECT_EQ(drawn, DrawDemonstrations(task, example, 9, seed));
      EXPECT_EQ(DrawDemonstrations(task, example, 1, seed)[0], drawn[0]);
      seen.insert(drawn);
    }
  }
  EXPECT_EQ(seen.size(), 6u);
}

TEST(ExampleAnswerTest, DemonstrationsThatDoNotFitAreLeftOut) {
  const LoadedTask task = SampleTask("piqa");
  const Question whole = MakeQuestion(task, 0, 2, 5, ByteCodec(), kContext);
  EXPECT_FALSE(whole.shortened);
  EXPECT_EQ(whole.num_shots, 2);
  const Question one = MakeQuestion(task, 0, 1, 5, ByteCodec(), kContext);
  const auto longest = static_cast<int64_t>(one.prompts[0].continuations[0].size());
  const int64_t room = static_cast<int64_t>(one.prompts[0].context.size()) + longest;
  const Question cut = MakeQuestion(task, 0, 2, 5, ByteCodec(), room);
  EXPECT_TRUE(cut.shortened);
  EXPECT_EQ(cut.num_shots, 1);
  EXPECT_EQ(cut.prompts[0].context, one.prompts[0].context);
}

TEST(ExampleAnswerTest, TooLongAContextKeepsItsRightEnd) {
  const LoadedTask task = SampleTask("boolq");
  const ExampleAnswer answer = Ask(task, 0, 0, 20);
  EXPECT_TRUE(answer.shortened);
  const std::string text = task.examples[0].prompts[0];
  const auto context = Tokens(text.substr(text.size() - 16));
  EXPECT_NEAR(answer.choices[1].log_prob, SlowScore(context, Tokens(" yes"), kVocabulary), 1e-3);
  // Choices longer than the model's context leave one token of it.
  EXPECT_EQ(Ask(SampleTask("piqa"), 0, 0, 8).choices[0].num_tokens, 7);
}

TEST(ExampleAnswerTest, FreeAnswersEndAtAStop) {
  const LoadedTask task = SampleTask("nq");
  const auto say = [&](const std::string& text, int64_t context) {
    FakeDecoder decoder(kVocabulary, context);
    decoder.Say(Tokens(text));
    return AnswerExample(task, 0, {0, 0, context}, ByteCodec(), decoder).value().text;
  };
  EXPECT_EQ(say(" Ada Stone. She lived", kContext), "Ada Stone");
  EXPECT_EQ(say(" Ada Stone", kContext), "Ada Stone");  // EOS
  EXPECT_EQ(say("\nAda", kContext), "");
  EXPECT_EQ(say(" " + std::string(100, 'x'), kContext), std::string(31, 'x'));
  EXPECT_EQ(say(" " + std::string(100, 'x'), 33), std::string(31, 'x'));
}

}  // namespace
}  // namespace braid

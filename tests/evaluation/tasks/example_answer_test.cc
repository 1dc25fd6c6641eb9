#include "evaluation/tasks/example_answer.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "evaluation/tasks/task_spec.h"
#include "evaluation/tasks/text_template.h"
#include "formats/tokenizer.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"
#include "tests/evaluation/tasks/fake_decoder.h"
#include "tests/evaluation/tasks/sample_tasks.h"

namespace braid {
namespace example_answer_test {

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
  const TextCodec codec = ByteCodec();
  const DemonstrationSet set(task, shots, 5, codec);
  return AnswerExample(task, example, {set, codec, context, decoder, decoder}).value();
}

TEST(ExampleAnswerTest, ScoresAreThoseOfTokensOneByOne) {
  ASSERT_OK_AND_ASSIGN(const std::vector<v1::TaskSpec> specs, BuiltinTasks());
  for (const v1::TaskSpec& spec : specs) {
    if (!spec.has_choice()) continue;
    SCOPED_TRACE(spec.name());
    const LoadedTask task = SampleTask(spec.name());
    for (const int shots : {0, 1}) {
      const ExampleAnswer answer = Ask(task, 1, shots);
      const TaskExample& example = task.examples[1];
      ASSERT_EQ(answer.choices.size(), example.continuations.size());
      for (size_t i = 0; i < example.continuations.size(); ++i) {
        const std::string& prompt = example.prompts[example.prompts.size() == 1 ? 0 : i];
        const DemonstrationSet set(task, shots, 5, ByteCodec());
        const std::string text = PromptText(task.spec, set.For(example), prompt);
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

// SentencePiece attaches a space to the word after it: context and continuation together must be
// the tokens of the whole text.
TEST(ExampleAnswerTest, PairsOfSentencePieceAreTheTokensOfTheWholeText) {
  ScratchDirectory scratch;
  std::vector<std::string> texts;
  for (int i = 0; i < 200; ++i)
    texts.push_back(absl::StrCat("the answer ", i, " is red or blue\n"));
  ASSERT_OK(TrainTokenizer(texts, {.vocab_size = 300}, scratch / "tokenizer.model"));
  ASSERT_OK_AND_ASSIGN(const auto tokenizer, Tokenizer::Load(scratch / "tokenizer.model"));
  TextCodec codec;
  codec.encode = [&](std::string_view text) { return tokenizer->Encode(text); };
  codec.eos_id = tokenizer->eos_id();
  codec.start_id = tokenizer->eos_id();
  const std::vector<std::string> continuations = {" blue", " red or blue"};
  for (const char* context : {"the answer 7 is", "the answer 7 is \n"}) {
    const ScoredPrompt prompt = EncodePair(codec, context, continuations);
    EXPECT_EQ(prompt.context[0], tokenizer->eos_id());
    for (size_t i = 0; i < continuations.size(); ++i) {
      std::vector<int32_t> whole(prompt.context.begin() + 1, prompt.context.end());
      whole.insert(whole.end(), prompt.continuations[i].begin(), prompt.continuations[i].end());
      EXPECT_EQ(whole, tokenizer->Encode(context + continuations[i]));
      EXPECT_EQ(tokenizer->Decode(whole), context + continuations[i]);
    }
  }
}

TEST(ExampleAnswerTest, DemonstrationsThatDoNotFitAreLeftOut) {
  const LoadedTask task = SampleTask("piqa");
  const auto make = [&](int shots, int64_t context) {
    return MakeQuestion(task, 0, DemonstrationSet(task, shots, 5, ByteCodec()), ByteCodec(),
                        context);
  };
  const Question whole = make(2, kContext);
  EXPECT_FALSE(whole.shortened);
  EXPECT_EQ(whole.num_shots, 2);
  const Question one = make(1, kContext);
  const auto longest = static_cast<int64_t>(one.prompts[0].continuations[0].size());
  const int64_t room = static_cast<int64_t>(one.prompts[0].context.size()) + longest;
  const Question cut = make(2, room);
  EXPECT_TRUE(cut.shortened);
  EXPECT_EQ(cut.num_shots, 1);
  EXPECT_EQ(cut.prompts[0].context, one.prompts[0].context);
}

TEST(ExampleAnswerTest, ContextsBeginWithTheStartTokenOfTheModel) {
  const std::vector<std::string> continuations = {"c"};
  const auto context = [&](std::optional<int32_t> start, const char* text) {
    TextCodec codec = ByteCodec();
    codec.start_id = start;
    return EncodePair(codec, text, continuations).context;
  };
  const std::vector<int32_t> text = ByteCodec().encode("ab");
  std::vector<int32_t> after = text;
  after.insert(after.begin(), 7);
  EXPECT_EQ(context(7, "ab"), after);
  EXPECT_EQ(context(std::nullopt, "ab"), text);
  EXPECT_EQ(context(std::nullopt, ""), std::vector<int32_t>{ByteCodec().eos_id});
}

// The token count of demonstrations depends on their position: the tokens of this codec are pairs
// of bytes.
TEST(ExampleAnswerTest, AsManyDemonstrationsAsFitAreShown) {
  TextCodec codec = ByteCodec();
  codec.encode = [](std::string_view text) {
    std::vector<int32_t> tokens;
    for (size_t i = 0; i < text.size(); i += 2) tokens.push_back(text[i] % 100 + 1);
    return tokens;
  };
  LoadedTask task = SampleTask("piqa");
  task.demonstrations_are_examples = false;
  for (int i = 0; i < 40; ++i) {
    TaskExample other = task.examples[1];
    other.prompts[0] += std::string(static_cast<size_t>(i), 'x');
    task.others.push_back(other);
  }
  for (int64_t context = 50; context < 4000; context += 37) {
    int most = 0;  // slow search for the largest number that fits
    for (int shots = 1; shots <= 40; ++shots) {
      const DemonstrationSet set(task, shots, 5, codec);
      if (MakeQuestion(task, 0, set, codec, context).num_shots == shots) most = shots;
    }
    const DemonstrationSet all(task, 40, 5, codec);
    EXPECT_EQ(MakeQuestion(task, 0, all, codec, context).num_shots, most) << context;
  }
}

TEST(ExampleAnswerTest, AContinuationOfNoTokensIsAnErrorWithItsPlace) {
  const LoadedTask task = SampleTask("piqa");
  TextCodec codec = ByteCodec();
  codec.encode = [](std::string_view) { return std::vector<int32_t>(); };
  const DemonstrationSet set(task, 0, 0, codec);
  FakeDecoder decoder(kVocabulary, kContext);
  EXPECT_FAILS(AnswerExample(task, 1, {set, codec, kContext, decoder, decoder}),
               absl::StatusCode::kInvalidArgument, "piqa", task.examples[1].where);
}

TEST(ExampleAnswerTest, TooLongAContextKeepsItsRightEnd) {
  const LoadedTask task = SampleTask("boolq");
  const ExampleAnswer answer = Ask(task, 0, 0, 20);
  EXPECT_TRUE(answer.shortened);
  const std::string text = task.examples[0].prompts[0];
  const auto context = Tokens(text.substr(text.size() - 16));
  EXPECT_NEAR(answer.choices[1].log_prob, SlowScore(context, Tokens(" yes"), kVocabulary), 1e-3);
  // Choices longer than the model's context leave one token of the context.
  EXPECT_EQ(Ask(SampleTask("piqa"), 0, 0, 8).choices[0].num_tokens, 7);
}

TEST(ExampleAnswerTest, FreeAnswersEndAtAStop) {
  const LoadedTask task = SampleTask("nq");
  const auto say = [&](const std::string& text, int64_t context) {
    FakeDecoder decoder(kVocabulary, context);
    decoder.Say(Tokens(text));
    const TextCodec codec = ByteCodec();
    const DemonstrationSet none(task, 0, 0, codec);
    return AnswerExample(task, 0, {none, codec, context, decoder, decoder}).value().text;
  };
  EXPECT_EQ(say(" Ada Stone. She lived", kContext), "Ada Stone");
  EXPECT_EQ(say(" Ada Stone", kContext), "Ada Stone");  // EOS
  EXPECT_EQ(say("\nAda", kContext), "");
  EXPECT_EQ(say(" " + std::string(100, 'x'), kContext), std::string(31, 'x'));
  EXPECT_EQ(say(" " + std::string(100, 'x'), 33), std::string(15, 'x'));
}

TEST(ExampleAnswerTest, LongAnswersLeaveHalfOfTheContextForThePrompt) {
  LoadedTask task = SampleTask("nq");
  const DemonstrationSet none(task, 0, 0, ByteCodec());
  const auto size = [&](int max_tokens, int64_t context) {
    task.spec.mutable_free()->set_max_tokens(max_tokens);
    return MakeQuestion(task, 0, none, ByteCodec(), context).prompts[0].context.size();
  };
  ASSERT_GT(size(5, kContext), 36u);
  EXPECT_EQ(size(5, 41), 36u);
  for (const int max_tokens : {20, 40, 41, 1000}) EXPECT_EQ(size(max_tokens, 41), 21u);
}

}  // namespace example_answer_test
}  // namespace braid

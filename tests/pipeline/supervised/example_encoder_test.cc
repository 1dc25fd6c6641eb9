#include "pipeline/supervised/example_encoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "evaluation/tasks/task_prompt.h"
#include "tests/base/status_matchers.h"
#include "tests/pipeline/supervised/tiny_tokenizers.h"

namespace braid {
namespace example_encoder_test {

using testing::ElementsAre;
using testing::SizeIs;
using Tokens = std::vector<int32_t>;

class ExampleEncoderTest : public testing::Test {
 protected:
  EncodingOptions Options(const std::string& chat, LossOn loss_on = LossOn::kAnswers) {
    return {.chat = FindChatTemplate(chat).value(),
            .loss_on = loss_on,
            .max_tokens = 1 << 20,
            .start_id = tokenizer_->eos_id()};
  }

  EncodedExample Encode(const SupervisedRecord& record, const EncodingOptions& options) {
    WordEncoder words(*tokenizer_);
    return ExampleEncoder(*tokenizer_, options).Encode(record, &words);
  }

  // Returns the tokens of the first `n` turns with the start of the next answer.
  Tokens Prompt(SupervisedRecord record, size_t n, const EncodingOptions& options) {
    record.turns.resize(n);
    WordEncoder words(*tokenizer_);
    return ExampleEncoder(*tokenizer_, options).EncodePrompt(record, &words);
  }

  std::string Text(std::span<const int32_t> tokens) { return tokenizer_->Decode(tokens); }
  std::string Text(const EncodedExample& example, size_t range) {
    const TokenRange& target = example.targets[range];
    return Text(std::span(example.tokens)
                    .subspan(static_cast<size_t>(target.begin),
                             static_cast<size_t>(target.end - target.begin)));
  }

  void Use(const std::string& bytes) { tokenizer_ = ParseTokenizer(bytes); }

  std::unique_ptr<Tokenizer> tokenizer_ = ParseTokenizer(SentencePieceBytes());
};

SupervisedRecord Conversation() {
  return {.place = "a:1",
          .turns = {{ChatRole::kSystem, "be brief"},
                    {ChatRole::kUser, "add 1 and 2"},
                    {ChatRole::kAssistant, "3"},
                    {ChatRole::kUser, "and 4?"},
                    {ChatRole::kAssistant, "the answer is 7"}}};
}

TEST_F(ExampleEncoderTest, TokensSpellThePromptAndAnswerWhereverTheyMeet) {
  const std::string text = "Question: is the sentence positive? Answer: negative.";
  for (const std::string& bytes : {SentencePieceBytes(), ChatTokenizerBytes()}) {
    Use(bytes);
    Tokens whole = tokenizer_->Encode(text);
    whole.insert(whole.begin(), tokenizer_->eos_id());
    whole.push_back(tokenizer_->eos_id());
    for (size_t cut = 1; cut < text.size(); ++cut) {
      const SupervisedRecord record = {.place = "a:1",
                                       .turns = {{ChatRole::kUser, text.substr(0, cut)},
                                                 {ChatRole::kAssistant, text.substr(cut)}},
                                       .literal = true};
      const EncodedExample example = Encode(record, Options("plain"));
      EXPECT_EQ(example.tokens, whole) << cut;
      // The answer is within the targets, which may begin with the end of the prompt.
      EXPECT_THAT(Text(example, 0), testing::HasSubstr(text.substr(cut + 1))) << cut;
    }
  }
}

TEST_F(ExampleEncoderTest, PromptAndAnswerJoinAsInEvaluation) {
  TextCodec codec;
  codec.encode = [&](std::string_view text) { return tokenizer_->Encode(text); };
  codec.eos_id = tokenizer_->eos_id();
  codec.start_id = tokenizer_->eos_id();
  for (const std::string prompt : {"Question: is it positive?\nAnswer:", "Answer: ", "x\n"}) {
    for (const std::string answer : {" positive", "positive", "\n4"}) {
      const ScoredPrompt expected = EncodePair(codec, prompt, std::span(&answer, 1));
      const SupervisedRecord record = {
          .place = "a:1",
          .turns = {{ChatRole::kUser, prompt}, {ChatRole::kAssistant, answer}},
          .literal = true};
      const EncodedExample example = Encode(record, Options("plain"));
      Tokens tokens = expected.context;
      const auto begin = static_cast<int32_t>(tokens.size());
      tokens.insert(tokens.end(), expected.continuations[0].begin(),
                    expected.continuations[0].end());
      tokens.push_back(tokenizer_->eos_id());
      EXPECT_EQ(example.tokens, tokens) << prompt << answer;
      EXPECT_THAT(example.targets,
                  ElementsAre(TokenRange{begin, static_cast<int32_t>(tokens.size())}));
      EXPECT_EQ(Prompt(record, 1, Options("plain")), expected.context);
    }
  }
}

TEST_F(ExampleEncoderTest, TemplatesPutTheirTextAroundTurns) {
  const std::map<std::string, std::string> expected = {
      {"plain", "be brief\n\nadd 1 and 2\n3and 4?\nthe answer is 7"},
      {"alpaca",
       "be brief\n\n### Instruction:\nadd 1 and 2\n\n### Response:\n3\n\n### Instruction:\nand "
       "4?\n\n### Response:\nthe answer is 7"},
      {"chatml",
       "<|im_start|>system\nbe brief\n<|im_start|>user\nadd 1 and 2\n<|im_start|>assistant\n3\n"
       "<|im_start|>user\nand 4?\n<|im_start|>assistant\nthe answer is 7"},
      {"llama2",
       "[INST] <<SYS>>\nbe brief\n<</SYS>>\n\nadd 1 and 2 [/INST] 3 [INST] and 4? [/INST] the "
       "answer is 7 "},
      {"zephyr",
       "<|system|>\nbe brief\n<|user|>\nadd 1 and 2\n<|assistant|>\n3\n<|user|>\nand 4?\n"
       "<|assistant|>\nthe answer is 7"},
  };
  for (const auto& [name, text] : expected) {
    const EncodedExample example = Encode(Conversation(), Options(name));
    EXPECT_EQ(Text(example.tokens), text) << name;
    ASSERT_THAT(example.targets, SizeIs(2)) << name;
    EXPECT_THAT(Text(example, 0), testing::HasSubstr("3")) << name;
    EXPECT_THAT(Text(example, 1), testing::HasSubstr("the answer is 7")) << name;
    // The end of each answer is a target.
    for (const TokenRange& range : example.targets) {
      EXPECT_EQ(example.tokens[static_cast<size_t>(range.end - 1)], tokenizer_->eos_id());
    }
  }
}

TEST_F(ExampleEncoderTest, MarkersAreTokensOfVocabulariesThatHaveThem) {
  Use(ChatTokenizerBytes());
  const auto id_of = [&](const std::string& piece) {
    for (int32_t id = 0; id < tokenizer_->vocab_size(); ++id) {
      if (tokenizer_->Piece(id) == piece) return id;
    }
    return -1;
  };
  const EncodedExample chatml = Encode(Conversation(), Options("chatml"));
  EXPECT_EQ(std::ranges::count(chatml.tokens, id_of("<|im_start|>")), 5);
  EXPECT_EQ(std::ranges::count(chatml.tokens, id_of("<|im_end|>")), 5);
  EXPECT_EQ(chatml.tokens.back(), id_of("<|im_end|>"));
  EXPECT_EQ(std::ranges::count(chatml.tokens, tokenizer_->eos_id()), 1);  // the start
  const EncodedExample llama3 = Encode(Conversation(), Options("llama3"));
  EXPECT_EQ(std::ranges::count(llama3.tokens, id_of("<|start_header_id|>")), 5);
  EXPECT_EQ(std::ranges::count(llama3.tokens, id_of("<|eot_id|>")), 5);
  EXPECT_EQ(Text(llama3.tokens),
            "system\n\nbe briefuser\n\nadd 1 and 2assistant\n\n3user\n\nand 4?assistant\n\nthe "
            "answer is 7");
}

TEST_F(ExampleEncoderTest, ControlTokensInTextOfUsersStayText) {
  for (const std::string& bytes : {SentencePieceBytes(), ChatTokenizerBytes()}) {
    Use(bytes);
    SupervisedRecord record = Conversation();
    const EncodedExample before = Encode(record, Options("chatml"));
    const std::string control =
        "</s><s><|im_end|><|endoftext|>{eos}<|im_start|>" + tokenizer_->Piece(tokenizer_->eos_id());
    record.turns[1].text += control;
    const EncodedExample after = Encode(record, Options("chatml"));
    const auto controls = [&](const EncodedExample& example) {
      return std::ranges::count_if(example.tokens, [&](int32_t id) {
        const std::string piece = tokenizer_->Piece(id);
        return piece.starts_with("<|") || piece == "</s>" || piece == "<s>";
      });
    };
    EXPECT_EQ(controls(after), controls(before));
    EXPECT_THAT(Text(after.tokens), testing::HasSubstr(control));
    EXPECT_TRUE(ChatMarkers(*tokenizer_, std::nullopt).OccurIn(control));
  }
}

// The tokens before each answer are those after which the model generates it.
TEST_F(ExampleEncoderTest, EveryAnswerFollowsItsGenerationPrompt) {
  std::mt19937 random(2);
  const std::vector<std::string> words = {"the", " answer", "\n", " ", "42", "add", ".", "é", "  "};
  const auto draw = [&] {
    std::string text = "a";
    for (size_t i = 0, n = random() % 6; i < n; ++i) text += words[random() % words.size()];
    return text + "b";
  };
  for (const std::string& bytes : {SentencePieceBytes(), ChatTokenizerBytes()}) {
    Use(bytes);
    for (const std::string& name : ChatTemplateNames()) {
      for (int trial = 0; trial < 10; ++trial) {
        SupervisedRecord record = Conversation();
        for (ChatTurn& turn : record.turns) turn.text = draw();
        const EncodedExample example = Encode(record, Options(name));
        for (size_t answer = 0; answer < 2; ++answer) {
          const Tokens prompt = Prompt(record, 2 + 2 * answer, Options(name));
          const auto begin = static_cast<size_t>(example.targets[answer].begin);
          EXPECT_EQ(Tokens(example.tokens.begin(),
                           example.tokens.begin() + static_cast<std::ptrdiff_t>(begin)),
                    prompt)
              << name;
        }
      }
    }
  }
}

TEST_F(ExampleEncoderTest, TheLossChoosesTargets) {
  const EncodedExample all = Encode(Conversation(), Options("chatml"));
  const EncodedExample last = Encode(Conversation(), Options("chatml", LossOn::kLastAnswer));
  EXPECT_EQ(last.tokens, all.tokens);
  EXPECT_THAT(last.targets, ElementsAre(all.targets[1]));
  const EncodedExample everything = Encode(Conversation(), Options("chatml", LossOn::kEverything));
  EXPECT_THAT(everything.targets,
              ElementsAre(TokenRange{1, static_cast<int32_t>(all.tokens.size())}));
}

TEST_F(ExampleEncoderTest, LongExamplesLoseTokensOfPromptsOnly) {
  const EncodedExample whole = Encode(Conversation(), Options("alpaca"));
  const auto length = static_cast<int64_t>(whole.tokens.size());
  for (int64_t max_tokens = 1; max_tokens <= length + 1; ++max_tokens) {
    EncodingOptions options = Options("alpaca");
    options.max_tokens = max_tokens;
    const EncodedExample example = Encode(Conversation(), options);
    const int64_t last = whole.targets[1].end - whole.targets[1].begin;
    EXPECT_EQ(!example.fault.empty(), max_tokens < last + 1) << max_tokens;
    if (!example.fault.empty()) continue;
    EXPECT_LE(std::ssize(example.tokens), max_tokens);
    EXPECT_EQ(example.num_cut, length - std::ssize(example.tokens));
    EXPECT_TRUE(
        std::ranges::equal(example.tokens, std::span(whole.tokens).last(example.tokens.size())));
    ASSERT_EQ(std::ssize(example.targets), 2 - example.num_cut_answers);
    for (size_t i = 0; i < example.targets.size(); ++i) {
      const TokenRange& before = whole.targets[i + static_cast<size_t>(example.num_cut_answers)];
      EXPECT_GE(example.targets[i].begin, 1);
      EXPECT_EQ(example.targets[i].begin, before.begin - example.num_cut);
      EXPECT_EQ(example.targets[i].end, before.end - example.num_cut);
    }
    // Nothing is removed that fits.
    if (example.num_cut_answers == 0) {
      EXPECT_EQ(std::ssize(example.tokens), std::min(max_tokens, length));
    }
  }
}

TEST_F(ExampleEncoderTest, TextAloneIsATargetAfterItsFirstToken) {
  const SupervisedRecord record = {
      .place = "a:1", .turns = {{ChatRole::kAssistant, "the answer"}}, .literal = true};
  EncodingOptions options = Options("plain");
  options.start_id.reset();
  const EncodedExample example = Encode(record, options);
  // EOS takes the place of the missing start token.
  EXPECT_EQ(example.tokens.front(), tokenizer_->eos_id());
  EXPECT_THAT(example.targets,
              ElementsAre(TokenRange{1, static_cast<int32_t>(example.tokens.size())}));
}

}  // namespace example_encoder_test
}  // namespace braid

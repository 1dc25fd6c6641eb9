// Models that are fine-tuned on chats, in use.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "inference/generation.h"
#include "inference/prompt.h"
#include "pipeline/store/stage_store.h"
#include "pipeline/supervised/supervised_dataset.h"
#include "runs/run_spec.h"
#include "runs/start_token.h"
#include "tests/base/status_matchers.h"
#include "tests/formats/tiny_tokenizer_json.h"
#include "tests/pipeline/supervised/tiny_tokenizers.h"
#include "tests/trainer/tiny_run.h"

namespace braid {
namespace chat_generation_test {

using Tokens = std::vector<int32_t>;
using testing::HasSubstr;

std::string RandomText(std::mt19937* random) {
  const std::vector<std::string> words = {"the", " answer",    "\n",   " ", "42", "add",
                                          ".",   "<|im_end|>", "</s>", "é", "  ", "{eos}"};
  std::string text = "a";
  for (size_t i = 0, n = (*random)() % 6; i < n; ++i) text += words[(*random)() % words.size()];
  return (*random)() % 4 == 0 ? text + " \n" : text;
}

// Returns the tokens before the answer in a supervised dataset, and the one that ends it.
std::pair<Tokens, int32_t> BeforeTheAnswer(const v1::GenerateRequest& request,
                                           const Tokenizer& tokenizer,
                                           const EncodingOptions& options) {
  SupervisedRecord record = {.place = "a:1", .turns = {}};
  if (!request.system().empty()) record.turns.push_back({ChatRole::kSystem, request.system()});
  record.turns.push_back({ChatRole::kUser, request.prompt()});
  record.turns.push_back({ChatRole::kAssistant, "answer"});
  WordEncoder words(tokenizer);
  const EncodedExample example = ExampleEncoder(tokenizer, options).Encode(record, &words);
  return {Tokens(example.tokens.begin(), example.tokens.begin() + example.targets[0].begin),
          example.tokens.back()};
}

TEST(ChatPromptTest, HasTheTokensThatPrecedeAnswersInTraining) {
  std::mt19937 random(5);
  for (const std::string& bytes : {SentencePieceBytes(), ChatTokenizerBytes()}) {
    const std::unique_ptr<Tokenizer> tokenizer = ParseTokenizer(bytes);
    for (const v1::StartToken start : {v1::START_WITH_EOS, v1::START_WITH_NONE}) {
      v1::ModelConfig model;
      model.set_sequence_length(400);
      model.set_start_token(start);
      for (const std::string& name : ChatTemplateNames()) {
        const EncodingOptions options = {.chat = FindChatTemplate(name).value(),
                                         .max_tokens = 1 << 20,
                                         .start_id = StartTokenId(model, *tokenizer)};
        for (int trial = 0; trial < 10; ++trial) {
          v1::GenerateRequest request;
          request.set_chat(true);
          request.set_prompt(RandomText(&random));
          if (trial % 2 == 0) request.set_system(RandomText(&random));
          if (trial < 5) {
            model.set_chat_template(name);
          } else {
            model.set_chat_template("alpaca");
            request.set_chat_template(name);
          }
          ASSERT_OK_AND_ASSIGN(const GenerationPrompt prompt, PromptOf(request, model, *tokenizer));
          const auto [tokens, end] = BeforeTheAnswer(request, *tokenizer, options);
          EXPECT_EQ(prompt.tokens, tokens) << name << ": " << request.ShortDebugString();
          EXPECT_EQ(prompt.end_of_turn, end) << name;
        }
      }
    }
  }
}

TEST(ChatPromptTest, ErrorsSayWhatToDo) {
  const std::unique_ptr<Tokenizer> tokenizer = ParseTokenizer(SentencePieceBytes());
  v1::ModelConfig model;
  model.set_sequence_length(20);
  v1::GenerateRequest request;
  request.set_prompt("add");
  request.set_system("be brief");
  EXPECT_FAILS(PromptOf(request, model, *tokenizer).status(), absl::StatusCode::kInvalidArgument,
               "system: got one without chat", "--chat");
  request.set_chat(true);
  EXPECT_FAILS(PromptOf(request, model, *tokenizer).status(), absl::StatusCode::kInvalidArgument,
               "the model has no chat template", "--template");
  request.set_chat_template("chatlm");
  EXPECT_FAILS(PromptOf(request, model, *tokenizer).status(), absl::StatusCode::kNotFound,
               "template: got chatlm", "chatml");
  request.set_chat_template("chatml");
  EXPECT_FAILS(PromptOf(request, model, *tokenizer).status(), absl::StatusCode::kInvalidArgument,
               "expected at most 20", "prompt");
}

// The time that ICU needs for this expression doubles with each letter.
TEST(ChatPromptTest, APromptThatCannotBeCutIsAnError) {
  const std::unique_ptr<Tokenizer> tokenizer =
      ParseTokenizer(TinyTokenizerJson({.regex = "(?:a|aa)+!"}));
  v1::ModelConfig model;
  model.set_sequence_length(4096);
  v1::GenerateRequest request;
  request.set_prompt("a!");
  EXPECT_OK(PromptOf(request, model, *tokenizer));
  request.set_prompt(std::string(200, 'a'));
  EXPECT_FAILS(PromptOf(request, model, *tokenizer).status(), absl::StatusCode::kInvalidArgument,
               "prompt: ", "(?:a|aa)+!");
}

// A model trained on 12 pairs of a prompt and an answer.
class ChatGenerationTest : public testing::Test {
 protected:
  static constexpr int kPairs = 12;

  static void SetUpTestSuite() { runs_ = new std::map<std::string, std::filesystem::path>; }

  static std::string PromptOf(int i) { return absl::StrCat("number ", i); }
  static std::string AnswerOf(int i) { return absl::StrCat(i * 7 % 23, " and ", (i * 11 + 5) % 9); }

  // Returns a run trained on the pairs with one of the templates; trained once for all tests.
  static std::filesystem::path RunOf(const std::string& name) {
    if (!runs_->contains(name)) (*runs_)[name] = Train(name, Dataset(name));
    return runs_->at(name);
  }

  static std::filesystem::path Dataset(const std::string& name) {
    RecordSet records;
    for (int i = 0; i < kPairs; ++i) {
      records.records.push_back(
          {.place = absl::StrCat("pairs.jsonl:", i + 1),
           .turns = {{ChatRole::kUser, PromptOf(i)}, {ChatRole::kAssistant, AnswerOf(i)}}});
    }
    records.sources.push_back({"pairs.jsonl", "messages", kPairs});
    const std::string bytes = Bytes(name);
    const std::unique_ptr<Tokenizer> tokenizer = ParseTokenizer(bytes);
    SupervisedSettings settings;
    settings.sequence_length = 64;
    settings.encoding = {
        .chat = FindChatTemplate(name).value(), .max_tokens = 65, .start_id = tokenizer->eos_id()};
    settings.validation_share = 0;
    const SupervisedPlan plan = PlanSupervised(records, nullptr, *tokenizer, settings).value();
    const SupervisedDataset dataset = {"pairs", plan, records.sources, settings, *tokenizer, bytes};
    const std::string key = SupervisedKey(dataset);
    StageStore store(NewDirectory("supervised"));
    return store
        .Produce("pack", key,
                 [&](StageWriter& stage) { return WriteSupervised(dataset, key, &stage); })
        ->directory;
  }

  static std::string Bytes(const std::string& name) {
    return name == "chatml" ? ChatTokenizerBytes() : SentencePieceBytes();
  }

  static std::filesystem::path Train(const std::string& name, const std::filesystem::path& data) {
    v1::RunSpec asked;
    asked.set_dataset_dir(data.string());
    asked.set_num_steps(200);
    asked.set_threads_per_rank(1);
    asked.mutable_batch()->set_global_batch_size(8);
    asked.mutable_optimizer()->set_learning_rate(5e-3);
    asked.mutable_optimizer()->set_weight_decay(0);
    asked.mutable_checkpoint()->set_every_steps(200);
    v1::ModelConfig* const model = asked.mutable_model();
    model->set_num_layers(2);
    model->set_d_model(48);
    model->set_num_heads(4);
    model->set_chat_template(name);
    const v1::RunSpec spec = ResolveRunSpec(asked).value();
    const RunDirectory run(NewDirectory("chat"));
    EXPECT_OK(run.WriteSpec(spec));
    EXPECT_OK(TrainAlone(run, spec));
    return run.root();
  }

  static v1::GenerateRequest Request(const std::string& name, int i) {
    v1::GenerateRequest request;
    request.set_model(RunOf(name).string());
    request.set_prompt(PromptOf(i));
    request.set_chat(true);
    request.set_max_tokens(30);
    request.set_num_threads(1);
    return request;
  }

  // Returns the text, and the event after which nothing follows.
  static std::string Answer(const v1::GenerateRequest& request, v1::GenerateEvent* last = nullptr) {
    std::string text;
    int events = 0;
    EXPECT_OK(Generate(request, [&](const v1::GenerateEvent& event) {
      text += event.text();
      ++events;
      if (last != nullptr) *last = event;
    }));
    EXPECT_TRUE(request.num_beams() <= 1 || events == 1) << events;
    if (text.ends_with(' ')) text.pop_back();  // the template llama2 adds it
    return text;
  }

  static std::map<std::string, std::filesystem::path>* runs_;
};

std::map<std::string, std::filesystem::path>* ChatGenerationTest::runs_ = nullptr;

// Templates without control tokens, and one whose end of turn is not EOS.
TEST_F(ChatGenerationTest, AnswersAreThoseOfTrainingAndEndThere) {
  for (const std::string name : {"llama2", "chatml"}) {
    for (int i = 0; i < kPairs; ++i) {
      v1::GenerateEvent last;
      EXPECT_EQ(Answer(Request(name, i), &last), AnswerOf(i)) << name << " " << PromptOf(i);
      EXPECT_LT(last.num_tokens(), 30);
    }
  }
}

TEST_F(ChatGenerationTest, BeamsFindTheSameAnswersAndEmitThemAtTheEnd) {
  for (const std::string name : {"llama2", "chatml"}) {
    for (int i = 0; i < kPairs; i += 5) {
      v1::GenerateRequest request = Request(name, i);
      request.set_num_beams(3);
      EXPECT_EQ(Answer(request), AnswerOf(i)) << name;
      EXPECT_EQ(Answer(request), Answer(request));
    }
  }
}

TEST_F(ChatGenerationTest, NoSequenceOfTokensOccursTwice) {
  v1::GenerateRequest request = Request("chatml", 3);
  request.set_prompt("number number number");
  request.set_no_repeat_ngram(1);
  const std::unique_ptr<Tokenizer> tokenizer = ParseTokenizer(Bytes("chatml"));
  for (const int32_t beams : {1, 3}) {
    request.set_num_beams(beams);
    Tokens tokens = tokenizer->Encode(Answer(request));
    std::ranges::sort(tokens);
    EXPECT_EQ(std::ranges::adjacent_find(tokens), tokens.end()) << beams;
  }
}

TEST_F(ChatGenerationTest, SearchesRefuseWhatTheyCannotDo) {
  const auto error = [](auto change) {
    v1::GenerateRequest request = Request("llama2", 0);
    request.set_num_beams(4);
    change(request);
    return Generate(request, [](const v1::GenerateEvent&) {});
  };
  const auto invalid = absl::StatusCode::kInvalidArgument;
  EXPECT_FAILS(error([](auto& request) { request.set_temperature(.5); }), invalid, "temperature",
               "num_beams");
  EXPECT_FAILS(error([](auto& request) { request.set_want_routing(true); }), invalid,
               "want_routing", "num_beams");
  EXPECT_FAILS(error([](auto& request) { request.set_num_beams(33); }), invalid,
               "num_beams: got 33", "1 to 32");
  EXPECT_FAILS(error([](auto& request) { request.set_num_beams(-1); }), invalid, "num_beams", "-1");
  EXPECT_FAILS(error([](auto& request) { request.set_length_penalty(-1); }), invalid,
               "length_penalty", "-1");
  EXPECT_FAILS(error([](auto& request) { request.set_no_repeat_ngram(-2); }), invalid,
               "no_repeat_ngram", "-2");
}

TEST_F(ChatGenerationTest, RunsRefuseTemplatesThatDoNotExist) {
  v1::RunSpec spec;
  spec.set_dataset_dir(Dataset("llama2").string());
  spec.mutable_model()->set_chat_template("alpacca");
  EXPECT_FAILS(ResolveRunSpec(spec).status(), absl::StatusCode::kInvalidArgument,
               "model.chat_template: ", "alpaca");
}

}  // namespace chat_generation_test
}  // namespace braid

#include "evaluation/layer_analysis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/splitmix.h"
#include "base/utf8.h"
#include "braid/v1/analysis.pb.h"
#include "evaluation/task_prompts.h"
#include "formats/tokenizer.h"
#include "model/config/model_config.h"
#include "model/layer_outputs.h"
#include "proto/config_text.h"
#include "runs/model_path.h"
#include "tests/base/status_matchers.h"
#include "tests/trainer/tiny_run.h"
#include "tests/trainer/tiny_text_run.h"

namespace braid {
namespace layer_analysis_test {

namespace fs = std::filesystem;
using testing::HasSubstr;

v1::ModelConfig Config(const std::string& changes) {
  v1::ModelConfig config;
  EXPECT_OK(ParseConfig(absl::StrCat("vocab_size: 40 num_layers: 3 d_model: 8 num_heads: 1 d_ff: 8 "
                                     "sequence_length: 48 routing { router: DENSE } ",
                                     changes),
                        "test", &config));
  return ResolveModelConfig(config).value();
}

std::unique_ptr<LanguageModel> Model(const std::string& changes) {
  return LanguageModel::Create(Config(changes), 1).value();
}

std::span<float> ValuesOf(LanguageModel& model, const std::string& name) {
  const auto found = std::ranges::find(model.parameters(), name, &Parameter::name);
  EXPECT_NE(found, model.parameters().end()) << name;
  return found->value;
}

// Token 0 has a mark in unit 0, all others the same vector without it. The attention of layer 1
// weighs all positions equally and writes the share of marks, 1 / (position + 1), into unit 2. All
// other matrices of layers are zero. So the mean of unit 2 falls with the number of tokens.
std::unique_ptr<LanguageModel> ModelThatCountsInLayer1() {
  auto model = Model("");
  for (const Parameter& parameter : model->parameters()) {
    if (parameter.shape.size() > 1) std::ranges::fill(parameter.value, 0.0F);
  }
  const std::span<float> embedding = ValuesOf(*model, "model.embed_tokens.weight");
  for (int token = 0; token < 40; ++token) {
    embedding[token * 8 + (token == 0 ? 0 : 1)] = 1;
    embedding[token * 8 + 3] = 1;
  }
  ValuesOf(*model, "model.layers.1.self_attn.v_proj.weight")[0] = 1;
  ValuesOf(*model, "model.layers.1.self_attn.o_proj.weight")[2 * 8] = 1;
  return model;
}

// Sentences of `words` words by class, as the probe "length" has them.
ProbeSentences LengthSentences(int of_class) {
  ProbeSentences sentences{.name = "length", .num_classes = 6, .training = {}, .test = {}};
  const std::vector<int> begins = {5, 9, 13, 17, 21, 26}, ends = {9, 13, 17, 21, 26, 29};
  uint64_t state = 9;
  for (int i = 0; i < 6 * of_class; ++i) {
    const int c = i % 6;
    const int words = begins[c] + static_cast<int>(NextSplitMix64(&state) % (ends[c] - begins[c]));
    std::string text;
    for (int w = 0; w < words; ++w) {
      absl::StrAppend(&text, w == 0 ? "" : " ", 1 + NextSplitMix64(&state) % 39);
    }
    (i < 6 * of_class * 4 / 5 ? sentences.training : sentences.test).push_back({text, c});
  }
  return sentences;
}

LayerProbeOptions NumbersAsTokens() {
  LayerProbeOptions options;
  options.num_threads = 1;
  options.skipped = 1;
  options.encode = [](std::string_view text) {
    std::vector<int32_t> tokens = {0};
    for (const std::string_view word : WordsOf(text)) {
      tokens.push_back(std::stoi(std::string(word)));
    }
    return tokens;
  };
  return options;
}

const auto kIgnoreProgress = [](int64_t, int64_t) {};

TEST(LayerAnalysisTest, FindsTheLayerThatStoresTheLengthInOneUnit) {
  const auto model = ModelThatCountsInLayer1();
  ASSERT_OK_AND_ASSIGN(
      const v1::ProbeResult result,
      ProbeLayers(*model, LengthSentences(100), NumbersAsTokens(), kIgnoreProgress));
  ASSERT_EQ(result.layers_size(), 4);
  EXPECT_EQ(result.num_training_sentences(), 480);
  EXPECT_EQ(result.num_test_sentences(), 120);
  EXPECT_NEAR(result.majority(), 1.0 / 6, 1e-9);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(result.layers(i).layer(), i - 1);
    const double accuracy = result.layers(i).accuracy();
    if (i < 2) {
      EXPECT_NEAR(accuracy, 1.0 / 6, .01) << "all vectors are equal in layer " << i - 1;
    } else {
      EXPECT_GT(accuracy, .8) << "layer " << i - 1;
    }
    EXPECT_LT(result.layers(i).interval().low(), accuracy);
    EXPECT_GT(result.layers(i).interval().high(), accuracy);
  }
}

TEST(LayerAnalysisTest, AMessageShowsWholeCharactersOfALongSentence) {
  ProbeSentences sentences = LengthSentences(20);
  sentences.training[0].text = "a";
  for (int i = 0; i < 40; ++i) sentences.training[0].text += "\u00e9";
  LayerProbeOptions options = NumbersAsTokens();
  options.encode = [](std::string_view) { return std::vector<int32_t>(1000, 1); };
  const absl::Status status = ProbeLayers(*Model(""), sentences, options, kIgnoreProgress).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_TRUE(IsValidUtf8(std::string(status.message()))) << status;
}

TEST(LayerAnalysisTest, ResultsDoNotDependOnTheNumberOfThreads) {
  const auto model = Model("");
  LayerProbeOptions options = NumbersAsTokens();
  options.hidden_units = 5;
  options.seed = 3;
  ASSERT_OK_AND_ASSIGN(const v1::ProbeResult one,
                       ProbeLayers(*model, LengthSentences(20), options, kIgnoreProgress));
  options.num_threads = 3;
  ASSERT_OK_AND_ASSIGN(const v1::ProbeResult three,
                       ProbeLayers(*model, LengthSentences(20), options, kIgnoreProgress));
  EXPECT_EQ(one.SerializeAsString(), three.SerializeAsString());
}

TEST(LayerOutputsTest, AreThoseOfASequenceAlone) {
  const auto model = Model("layer_mixing { alpha: 0.7 }");
  const std::vector<int32_t> first = {0, 5, 9, 2}, second = {0, 7, 7, 30};
  std::vector<int32_t> both = first;
  both.insert(both.end(), second.begin(), second.end());
  ASSERT_OK_AND_ASSIGN(const auto together, MeanLayerOutputs(*model, both, 2, 1));
  ASSERT_OK_AND_ASSIGN(const auto alone, MeanLayerOutputs(*model, second, 1, 1));
  ASSERT_EQ(together.size(), 4 * 2 * 8u);
  for (size_t layer = 0; layer < 4; ++layer) {
    for (size_t d = 0; d < 8; ++d) {
      EXPECT_NEAR(together[(layer * 2 + 1) * 8 + d], alone[layer * 8 + d], 1e-5);
    }
  }
  const std::span<float> embedding = ValuesOf(*model, "model.embed_tokens.weight");
  for (size_t d = 0; d < 8; ++d) {
    EXPECT_NEAR(alone[d], (2 * embedding[7 * 8 + d] + embedding[30 * 8 + d]) / 3, 1e-6);
  }
  EXPECT_FALSE(MeanLayerOutputs(*model, std::vector<int32_t>{40}, 1, 0).ok());
}

// A gate whose bias prefers one layer chooses it for every prompt.
TEST(LayerOutputsTest, ChoicesAreThoseOfTheGate) {
  for (const char* decision : {"SEQUENCE", "TOKEN"}) {
    const auto model =
        Model(absl::StrCat("layer_mixing { alpha: 0.7 layers: [0, 2] decision: ", decision, " }"));
    ValuesOf(*model, "model.layer_mixing.gate.bias")[1] = 100;
    ASSERT_OK_AND_ASSIGN(const auto choices,
                         PromptLayerChoices(*model, std::vector<int32_t>{0, 3, 4, 5, 6}));
    ASSERT_EQ(choices.size(), 2u);
    EXPECT_EQ(choices[1].layer, 2);
    for (const LayerChoiceCounts& layer : choices) {
      EXPECT_EQ(layer.counts, (std::vector<int64_t>{0, 0, 5})) << decision;
    }
  }
  const auto fixed = Model("layer_mixing { alpha: 0.7 gate: FIXED fixed: [1, 2, 0] }");
  ASSERT_OK_AND_ASSIGN(const auto choices, PromptLayerChoices(*fixed, std::vector<int32_t>{0, 3}));
  ASSERT_EQ(choices.size(), 3u);
  EXPECT_EQ(choices[0].counts, (std::vector<int64_t>{0, 2, 0}));
  EXPECT_EQ(choices[2].counts, (std::vector<int64_t>{2, 0, 0}));
  ASSERT_OK_AND_ASSIGN(const auto none, PromptLayerChoices(*Model(""), std::vector<int32_t>{0, 3}));
  EXPECT_TRUE(none.empty());
}

// A text with many lengths, of words that the tokenizer knows.
std::string TextOfSentences(int count) {
  const std::vector<std::string> words = {"red", "old", "sea", "tree", "sun", "road", "night"};
  std::string text;
  uint64_t state = 4;
  for (int i = 0; i < count; ++i) {
    const int length = 5 + i % 24;
    for (int w = 0; w < length; ++w) {
      absl::StrAppend(&text, w == 0 ? "The" : words[NextSplitMix64(&state) % words.size()],
                      w + 1 < length ? " " : ". ");
    }
  }
  return text;
}

class AnalyzeLayersTest : public testing::Test {
 protected:
  static const RunDirectory& Run() {
    static const RunDirectory run =
        NewTextRun(NewTextDataset(NewTokenizer(TextOfSentences(100), 290), 128), 1);
    return run;
  }
  static absl::StatusOr<v1::LayerAnalysis> Analyze(const std::string& text,
                                                   v1::AnalyzeLayersRequest request,
                                                   std::vector<v1::AnalyzeLayersEvent>* events) {
    request.set_model(Run().root().string());
    request.set_num_threads(1);
    request.add_paths("text");
    const auto reader = [&](std::span<const std::string>, const TakeDocument& take) {
      take("text", text);
      return absl::StatusOr<ReadSummary>(ReadSummary());
    };
    RETURN_IF_ERROR(
        AnalyzeLayers(request, reader, [&](const auto& event) { events->push_back(event); }));
    return events->back().result();
  }
  static std::string Refusal(const std::string& text, const v1::AnalyzeLayersRequest& request) {
    std::vector<v1::AnalyzeLayersEvent> events;
    return std::string(Analyze(text, request, &events).status().message());
  }
};

TEST_F(AnalyzeLayersTest, AnswersARequestWithProgressAndResult) {
  v1::AnalyzeLayersRequest request;
  request.set_num_sentences(120);
  request.add_probes("swapped_words");
  request.add_probes("length");
  std::vector<v1::AnalyzeLayersEvent> events;
  ASSERT_OK_AND_ASSIGN(const v1::LayerAnalysis analysis,
                       Analyze(TextOfSentences(600), request, &events));
  ASSERT_EQ(analysis.probes_size(), 2);
  EXPECT_EQ(analysis.probes(0).name(), "length");
  EXPECT_EQ(analysis.probes(1).num_classes(), 2);
  EXPECT_EQ(analysis.num_sentences(), 240);
  EXPECT_EQ(analysis.step(), 2);
  EXPECT_EQ(analysis.probes(0).layers_size(), 3);
  EXPECT_EQ(events[0].probe(), "length");
  EXPECT_EQ(events[0].total(), 120);
  EXPECT_FALSE(events[0].has_result());
}

TEST_F(AnalyzeLayersTest, RefusesWhatCannotBeMeasured) {
  v1::AnalyzeLayersRequest request;
  EXPECT_THAT(Refusal(TextOfSentences(60), request), HasSubstr("got 10000, but the text has"));
  request.set_num_sentences(20);
  EXPECT_THAT(Refusal("", request), HasSubstr("num_sentences: got 20, expected 100 to"));
  request.set_num_sentences(100);
  request.add_probes("length");
  request.set_num_words(30);
  EXPECT_THAT(Refusal("", request), HasSubstr("num_words: got 30, expected none without"));
  request.clear_probes();
  request.set_num_words(51);
  EXPECT_THAT(Refusal("", request), HasSubstr("num_words: got 51, expected 2 to 50"));
  request.set_num_sentences(10000);
  request.set_num_words(1001);
  EXPECT_THAT(Refusal("", request), HasSubstr("num_words: got 1001, expected 2 to 1000"));
  request.set_num_sentences(100);
  request.clear_num_words();
  request.add_probes("wurds");
  EXPECT_THAT(Refusal("", request), HasSubstr("did you mean \"words\"?"));
  request.clear_probes();
  request.add_tasks("sst2");
  EXPECT_THAT(Refusal("", request), HasSubstr("this model mixes none"));
  request.clear_tasks();
  request.set_hidden_units(-1);
  EXPECT_THAT(Refusal("", request), HasSubstr("hidden_units: got -1"));
  request.set_model(Run().root().string());
  request.clear_hidden_units();
  EXPECT_FAILS(AnalyzeLayers(request, nullptr, nullptr), absl::StatusCode::kInvalidArgument,
               "paths: got none");
}

TEST_F(AnalyzeLayersTest, ReadsThePromptsOfTasks) {
  const fs::path data = NewDirectory("tasks");
  fs::create_directories(data / "sst2");
  std::ofstream(data / "sst2" / "dev.tsv") << "sentence\tlabel\nold sea\t1\nred sun\t0\n";
  const ModelPath path = FindModel(Run().root(), true).value();
  const auto tokenizer = Tokenizer::Load(path.checkpoint / "tokenizer.model").value();
  const auto read = [&](const std::vector<std::string>& names, const fs::path& directory) {
    return ReadTaskPrompts(names, directory.string(), path.state.model, *tokenizer);
  };
  ASSERT_OK_AND_ASSIGN(const auto tasks, read({"sst2"}, data));
  ASSERT_EQ(tasks.size(), 1u);
  ASSERT_EQ(tasks[0].prompts.size(), 2u);
  std::vector<int32_t> tokens = tasks[0].prompts[0];
  EXPECT_EQ(tokens.front(), tokenizer->eos_id());
  tokens.erase(tokens.begin());
  EXPECT_THAT(tokenizer->Decode(tokens), HasSubstr("old sea"));
  EXPECT_FAILS(read({"sst2", "sst2"}, data).status(), absl::StatusCode::kInvalidArgument, "twice");
  EXPECT_FAILS(read({"sst2"}, "").status(), absl::StatusCode::kInvalidArgument, "tasks_dir");
  EXPECT_FAILS(read({"sst3"}, data).status(), absl::StatusCode::kNotFound, "sst2");
}

}  // namespace layer_analysis_test
}  // namespace braid

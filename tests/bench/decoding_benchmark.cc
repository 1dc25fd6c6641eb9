// Measures batched decoding: several sequences that step together or in turn, and multiple-choice
// questions with demonstrations that are scored choice by choice, as a batch, and as a batch that
// shares its demonstrations. Dense and with 8 experts, alternating. Also 1 and 8 sequences of a
// model with token-routed experts, N 16 and k 4, over the dense one.
//
//   braid-bench-decoding --preset small --layers 4 --json decoding.json
//
// The weights are those of a new model, since they do not affect the time. "bars" has the figure of
// the 8 sequences that is wanted to be 1 or more; the exit code is 1 if it is not.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/blas_core.h"
#include "model/config/model_config.h"
#include "model/language_model.h"
#include "nlohmann/json.hpp"
#include "tests/bench/bars.h"
#include "tests/bench/or_exit.h"

namespace braid {
namespace {

struct Settings {
  std::string preset = "small";
  int layers = 4;
  int rounds = 3;
  int steps = 24;                           // per generated sequence
  int shots = 5, shot = 60, question = 30;  // demonstrations and tokens
  int choices = 4, choice = 8, questions = 4;
  int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  bool only_routed = false;
  std::string json;
};

using Tokens = std::vector<int32_t>;
using Decoders = std::vector<std::unique_ptr<Decoder>>;

double SecondsOf(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double Median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + values.size() / 2);
  return values[values.size() / 2];
}

// Returns the median seconds of each task. The tasks alternate, so that changes of the machine
// affect all equally.
std::vector<double> MedianSeconds(int rounds, const std::vector<std::function<void()>>& works) {
  std::vector<std::vector<double>> seconds(works.size());
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < works.size(); ++i) seconds[i].push_back(SecondsOf(works[i]));
  }
  std::vector<double> medians;
  for (const std::vector<double>& of_one : seconds) medians.push_back(Median(of_one));
  return medians;
}

std::unique_ptr<LanguageModel> NewModel(const Settings& s, int num_experts) {
  v1::ModelConfig config;
  config.set_preset(s.preset + (num_experts > 1 ? "/8E" : ""));
  config.set_num_layers(s.layers);
  return OrExit(LanguageModel::Create(OrExit(ResolveModelConfig(config)), /*seed=*/1));
}

std::unique_ptr<LanguageModel> NewRoutedModel(const Settings& s) {
  v1::ModelConfig config;
  config.set_preset(s.preset);
  config.set_num_layers(s.layers);
  config.mutable_routing()->set_router(v1::TOKEN_CHOICE);
  config.mutable_routing()->set_num_experts(16);
  config.mutable_routing()->mutable_token()->set_active_experts(4);
  return OrExit(LanguageModel::Create(OrExit(ResolveModelConfig(config)), /*seed=*/1));
}

Tokens RandomTokens(int count, std::mt19937* random) {
  Tokens tokens(count);
  for (int32_t& token : tokens) token = static_cast<int32_t>((*random)() % 1000);
  return tokens;
}

Decoders Prompted(LanguageModel& model, int count) {
  std::mt19937 random(2);
  Decoders decoders;
  for (int i = 0; i < count; ++i) {
    decoders.push_back(model.NewDecoder(MergeMode::kPrompt));
    OrExit(decoders.back()->Prefill(RandomTokens(64, &random)));
  }
  return decoders;
}

// Measures the tokens per second of all sequences and the speedup of stepping together.
nlohmann::json MeasureGeneration(const Settings& s, LanguageModel& model, int count) {
  const Decoders in_turn = Prompted(model, count), together = Prompted(model, count);
  std::vector<Decoder*> pointers;
  for (const auto& decoder : together) pointers.push_back(decoder.get());
  const Tokens next(count, 7);
  const std::vector<double> seconds =
      MedianSeconds(s.rounds, {[&] {
                                 for (int i = 0; i < s.steps; ++i) {
                                   for (const auto& decoder : in_turn) OrExit(decoder->Step(7));
                                 }
                               },
                               [&] {
                                 for (int i = 0; i < s.steps; ++i) {
                                   OrExit(model.StepTogether(pointers, next));
                                 }
                               }});
  return {{"sequences", count},
          {"in_turn_tokens_per_second", count * s.steps / seconds[0]},
          {"together_tokens_per_second", count * s.steps / seconds[1]},
          {"together_over_in_turn", seconds[0] / seconds[1]}};
}

// Measures the tokens per second of `count` sequences that step together, over those of the dense
// model.
nlohmann::json MeasureRouted(const Settings& s, int count) {
  const auto dense = NewModel(s, 1), routed = NewRoutedModel(s);
  const auto step = [&](LanguageModel& model, const Decoders& decoders) {
    std::vector<Decoder*> pointers;
    for (const auto& decoder : decoders) pointers.push_back(decoder.get());
    Tokens next(count);
    for (int i = 0; i < count; ++i) next[i] = 7 + i;
    for (int i = 0; i < s.steps; ++i) {
      for (int32_t& token : next) token = (token * 31 + 5) % 1000;
      OrExit(model.StepTogether(pointers, next));
    }
  };
  const Decoders of_dense = Prompted(*dense, count), of_routed = Prompted(*routed, count);
  const std::vector<double> seconds =
      MedianSeconds(s.rounds, {[&] { step(*dense, of_dense); }, [&] { step(*routed, of_routed); }});
  return {{"sequences", count},
          {"routed_tokens_per_second", count * s.steps / seconds[1]},
          {"routed_over_dense", seconds[0] / seconds[1]}};
}

struct Question {
  Tokens prompt;
  std::vector<Tokens> choices;
};

std::vector<Question> RandomQuestions(const Settings& s) {
  std::mt19937 random(3);
  const Tokens demonstrations = RandomTokens(s.shots * s.shot, &random);
  std::vector<Question> questions(s.questions);
  for (Question& question : questions) {
    question.prompt = demonstrations;
    const Tokens own = RandomTokens(s.question, &random);
    question.prompt.insert(question.prompt.end(), own.begin(), own.end());
    for (int i = 0; i < s.choices; ++i) question.choices.push_back(RandomTokens(s.choice, &random));
  }
  return questions;
}

void OneByOne(LanguageModel& model, MergeMode mode, const Question& question) {
  for (const Tokens& choice : question.choices) {
    const auto decoder = model.NewDecoder(mode);
    OrExit(decoder->Prefill(question.prompt));
    for (size_t i = 0; i + 1 < choice.size(); ++i) OrExit(decoder->Step(choice[i]));
  }
}

void AsBatch(Decoder& decoder, const Question& question) {
  OrExit(decoder.Prefill(question.prompt));
  OrExit(decoder.ScoreContinuations(question.choices));
}

// Measures questions per second.
nlohmann::json MeasureChoice(const Settings& s, LanguageModel& model, MergeMode mode) {
  const std::vector<Question> questions = RandomQuestions(s);
  const auto shared = model.NewDecoder(mode);
  AsBatch(*shared, questions.back());
  const std::vector<double> seconds =
      MedianSeconds(s.rounds, {[&] {
                                 for (const Question& q : questions) OneByOne(model, mode, q);
                               },
                               [&] {
                                 for (const Question& q : questions)
                                   AsBatch(*model.NewDecoder(mode), q);
                               },
                               [&] {
                                 for (const Question& q : questions) AsBatch(*shared, q);
                               }});
  return {{"one_by_one_per_second", s.questions / seconds[0]},
          {"batch_over_one_by_one", seconds[0] / seconds[1]},
          {"shared_beginning_over_one_by_one", seconds[0] / seconds[2]},
          {"reused_tokens", shared->reused_tokens()},
          {"prompt_tokens", questions[0].prompt.size()}};
}

nlohmann::json MeasureModel(const Settings& s, int num_experts) {
  const auto model = NewModel(s, num_experts);
  nlohmann::json report;
  for (int count : {1, 4, 8}) report["generation"].push_back(MeasureGeneration(s, *model, count));
  report["choice_segment_routing"] = MeasureChoice(s, *model, MergeMode::kSegment);
  report["choice_prompt_routing"] = MeasureChoice(s, *model, MergeMode::kPrompt);
  return report;
}

int Run(const Settings& s) {
  SetModelThreads(s.threads);
  nlohmann::json report = {{"preset", s.preset},       {"layers", s.layers}, {"threads", s.threads},
                           {"blas", BlasCoreName()},   {"shots", s.shots},   {"choices", s.choices},
                           {"choice_tokens", s.choice}};
  for (int count : {1, 8}) report["routed"].push_back(MeasureRouted(s, count));
  report["bars"]["routed_8_over_dense"] = AtLeast(report["routed"][1]["routed_over_dense"], 1);
  if (!s.only_routed) {
    report["dense"] = MeasureModel(s, 1);
    report["moe8"] = MeasureModel(s, 8);
  }
  const std::string text = report.dump(2) + "\n";
  std::cout << text;
  if (!s.json.empty()) std::ofstream(s.json) << text;
  return ExitCodeOf(report["bars"]);
}

}  // namespace
}  // namespace braid

int main(int argc, char** argv) {
  braid::ReexecForBlas(argv);
  braid::Settings s;
  CLI::App app("Measure batched generation and batched scoring of continuations");
  app.add_option("--json", s.json, "File for the report");
  app.add_option("--preset", s.preset, "Named model")->capture_default_str();
  app.add_option("--layers", s.layers, "Layers")->capture_default_str();
  app.add_option("--threads", s.threads, "Threads")->capture_default_str();
  app.add_option("--rounds", s.rounds, "Repetitions of each case")->capture_default_str();
  app.add_option("--steps", s.steps, "Tokens per sequence")->capture_default_str();
  app.add_option("--shots", s.shots, "Demonstrations per question")->capture_default_str();
  app.add_option("--shot", s.shot, "Tokens per demonstration")->capture_default_str();
  app.add_option("--question", s.question, "Tokens per question")->capture_default_str();
  app.add_option("--choices", s.choices, "Choices per question")->capture_default_str();
  app.add_option("--choice", s.choice, "Tokens per choice")->capture_default_str();
  app.add_option("--questions", s.questions, "Number of questions, at least 2")
      ->check(CLI::Range(2, 1000))
      ->capture_default_str();
  app.add_flag("--only-routed", s.only_routed, "Leave out all but token-routed experts");
  CLI11_PARSE(app, argc, argv);
  return braid::Run(s);
}

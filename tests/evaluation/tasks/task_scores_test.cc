// The scores of one random model on the samples of all tasks. They change only when prompts,
// tokens, scoring or the model's arithmetic change.
#include <cmath>
#include <numeric>

#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "evaluation/tasks/task_evaluation.h"
#include "evaluation/tasks/task_spec.h"
#include "model/config/model_config.h"
#include "model/language_model.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"
#include "tests/evaluation/tasks/sample_tasks.h"

namespace braid {
namespace task_scores_test {

std::unique_ptr<LanguageModel> Model() {
  v1::ModelConfig config;
  config.set_num_layers(2);
  config.set_d_model(32);
  config.set_num_heads(2);
  config.set_d_ff(48);
  config.set_vocab_size(257);
  config.set_sequence_length(512);
  config.mutable_routing()->set_num_experts(4);
  config.mutable_routing()->set_segment_length(16);
  // Far from uniform, so that the routings differ.
  config.mutable_routing()->set_router_init_std(1);
  return LanguageModel::Create(ResolveModelConfig(config).value(), 11).value();
}

struct Pinned {
  const char* task;
  // Sum of ln p of all choices of the first two examples, with segment and with prompt routing; 0
  // for free answers, whose texts are pinned below.
  double segment;
  double prompt;
  // The main figure.
  double figure_segment;
  double figure_prompt;
};

constexpr Pinned kPinned[] = {
    {"agnews", -383.5933, -383.0554, 1.0 / 3, 1.0 / 3},
    {"amazon", -224.3169, -220.5062, 0.5, 0.5},
    {"arc_c", -244.6753, -251.5706, 0.5, 0.5},
    {"arc_e", -245.4545, -251.4381, 0.5, 0.5},
    {"asdiv", 0, 0, 0, 0},
    {"boolq", -89.3500, -89.0327, 0.5, 0.5},
    {"cola", -83.1989, -84.1844, 0, 0},
    {"e2e", 0, 0, 0, 0},
    {"fever", -238.1711, -236.3161, 1.0 / 3, 1.0 / 3},
    {"hellaswag", -925.9814, -920.1642, 0, 0},
    {"mawps", 0, 0, 0, 0},
    {"mrpc", -80.8419, -82.9106, 0.5, 0.5},
    {"nq", 0, 0, 0, 0},
    {"piqa", -676.0337, -676.8030, 0, 0},
    {"race_h", -397.0226, -398.3013, 0, 0},
    {"race_m", -400.7577, -400.1107, 0, 0},
    {"siqa", -510.2088, -511.0142, 0.5, 0.5},
    {"sst2", -230.6506, -218.4462, 0, 0},
    {"svamp", 0, 0, 0, 0},
    {"triviaqa", 0, 0, 0, 0},
    {"winogrande", -400.5372, -408.6615, 1, 0.5},
    {"yelp", -218.2539, -213.9301, 0.5, 0.5},
};

// Rounding differs between machines; the predicted choice does not.
bool Agree(const Pinned& a, const Pinned& b) {
  return std::abs(a.segment - b.segment) < 1e-2 && std::abs(a.prompt - b.prompt) < 1e-2 &&
         std::abs(a.figure_segment - b.figure_segment) < 1e-9 &&
         std::abs(a.figure_prompt - b.figure_prompt) < 1e-9;
}

double LogProbs(const LoadedTask& task, v1::InferenceRouting routing, const AskedModel& model) {
  const DemonstrationSet shots(task, 1, 0, model.codec);
  const std::unique_ptr<Decoder> decoder = model.new_decoder(routing);
  const Asking asking = {shots, model.codec, model.context_length, *decoder, *decoder};
  double sum = 0;
  for (int64_t example = 0; example < 2; ++example) {
    const ExampleAnswer answer = AnswerExample(task, example, asking).value();
    for (const ChoiceScore& choice : answer.choices) sum += choice.log_prob;
  }
  return sum;
}

TEST(TaskScoresTest, ScoresOfARandomModelArePinned) {
  ScratchDirectory scratch;
  const std::unique_ptr<LanguageModel> language_model = Model();
  AskedModel model;
  model.codec = ByteCodec();
  model.context_length = 512;
  model.new_decoder = [&](v1::InferenceRouting routing) {
    return language_model->NewDecoder(routing == v1::PROMPT_ROUTING ? MergeMode::kPrompt
                                                                    : MergeMode::kSegment);
  };
  ASSERT_OK_AND_ASSIGN(std::vector<v1::TaskSpec> specs, BuiltinTasks());
  std::erase_if(specs, [](const v1::TaskSpec& spec) { return spec.has_number(); });
  ASSERT_EQ(specs.size(), std::size(kPinned));
  for (size_t i = 0; i < specs.size(); ++i) {
    LoadedTask task = SampleTask(specs[i].name());
    if (task.spec.free().num_beams() > 2) task.spec.mutable_free()->set_num_beams(2);  // for speed
    const auto figure = [&](v1::InferenceRouting routing) {
      TaskEvaluationOptions options;
      options.routing = routing;
      options.num_shots = 1;
      options.answers_dir = scratch.path();
      return EvaluateTask(task, model, options, [](int64_t, int64_t) {})->metrics(0).value();
    };
    const Pinned got = {kPinned[i].task, LogProbs(task, v1::SEGMENT_ROUTING, model),
                        LogProbs(task, v1::PROMPT_ROUTING, model), figure(v1::SEGMENT_ROUTING),
                        figure(v1::PROMPT_ROUTING)};
    EXPECT_EQ(specs[i].name(), got.task);
    EXPECT_TRUE(Agree(got, kPinned[i]))
        << absl::StreamFormat("{\"%s\", %.4f, %.4f, %.17g, %.17g},", got.task, got.segment,
                              got.prompt, got.figure_segment, got.figure_prompt);
  }
}

// They differ in length, so that some end while others are written.
TEST(TaskScoresTest, AnswersWrittenTogetherAreThoseWrittenAlone) {
  const std::unique_ptr<LanguageModel> model = Model();
  const TextCodec codec = ByteCodec();
  for (const char* const name : {"nq", "mawps", "triviaqa"}) {
    const LoadedTask task = SampleTask(name);
    const DemonstrationSet shots(task, 1, 0, codec);
    std::vector<int64_t> examples(task.examples.size());
    std::iota(examples.begin(), examples.end(), int64_t{0});
    ASSERT_GT(examples.size(), 1u);
    for (const MergeMode mode : {MergeMode::kSegment, MergeMode::kPrompt}) {
      const auto decoder = model->NewDecoder(mode), alone = model->NewDecoder(mode);
      Asking asking = {shots, codec, 512, *decoder, *decoder};
      asking.score_references = true;
      EXPECT_EQ(MostAnswersTogether(task, asking), 1u);
      asking.step_together = [&](std::span<Decoder* const> decoders,
                                 std::span<const int32_t> tokens) {
        return model->StepTogether(decoders, tokens);
      };
      EXPECT_EQ(MostAnswersTogether(task, asking), 8u);
      ASSERT_OK_AND_ASSIGN(const auto together, AnswerExamples(task, examples, asking));
      const Asking single = {shots, codec, 512, *alone, *alone, /*score_references=*/true};
      ASSERT_EQ(together.size(), examples.size());
      for (const ExampleAnswer& answer : together) {
        ASSERT_OK_AND_ASSIGN(const auto expected, AnswerExample(task, answer.example, single));
        EXPECT_EQ(answer.text, expected.text) << name;
        EXPECT_NEAR(answer.reference->log_prob, expected.reference->log_prob, 1e-3);
      }
    }
  }
}

// With segment routing.
TEST(TaskScoresTest, FreeAnswersOfARandomModelArePinned) {
  const std::unique_ptr<LanguageModel> language_model = Model();
  const TextCodec codec = ByteCodec();
  const auto written = [&](const char* name) {
    const LoadedTask task = SampleTask(name);
    const DemonstrationSet shots(task, 1, 0, codec);
    const auto decoder = language_model->NewDecoder(MergeMode::kSegment);
    const Asking asking = {shots, codec, 512, *decoder, *decoder};
    std::vector<std::string> texts;
    for (int64_t example = 0; example < 2; ++example) {
      texts.push_back(absl::CEscape(AnswerExample(task, example, asking).value().text));
    }
    return texts;
  };
  EXPECT_THAT(
      written("nq"),
      testing::ElementsAre(
          R"(7r\006\226\010r\006\226\010r\006\226r\006\226\226\010P\354\002\337 \217*\346\337X\201\204\320Pt)",
          R"(9\260\265/)\217\326\275\232L\337\221\323T/)\232\'DP\031\'DT/\022\204\022\204\250\267\200)"));
  EXPECT_THAT(
      written("triviaqa"),
      testing::ElementsAre(
          R"(\232L\316\316\316\316\316\316b\232\317\327\327\327\327\327\326q\030\221b\232L\316T[\010\346\323\211{\250)",
          R"(\232\225\226PPP\2340\'\354\274\221b\232\317*\3160\'\273\250F\265/\217\273\250)\250)T\033)"));
}

}  // namespace task_scores_test
}  // namespace braid

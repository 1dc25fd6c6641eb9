#include "inference/generation_turns.h"

#include <cmath>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "base/splitmix.h"
#include "gtest/gtest.h"
#include "inference/generation.h"
#include "inference/loaded_model.h"
#include "inference/prompt.h"
#include "inference/sampler.h"
#include "tests/trainer/text_run.h"

namespace braid {
namespace generation_turns_test {

using Weights = std::vector<std::vector<double>>;  // by layer

// Trained once for all tests.
class GenerationTurnsTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    SetModelThreads(1);
    run_ = new std::filesystem::path(TrainTextRun().root());
  }
  GenerationTurnsTest()
      : loaded_(*LoadedModel::Load(*run_, /*strict=*/true)),
        turns_(loaded_, [this](const v1::ServingReport& report) { Record(report); }) {}

  static v1::GenerateRequest Request(uint64_t seed, const std::string& prompt = "the cat") {
    v1::GenerateRequest request;
    request.set_model(run_->string());
    request.set_prompt(prompt);
    request.set_max_tokens(16);
    request.set_temperature(1);
    request.set_seed(seed);
    request.set_num_threads(1);
    request.set_routing(seed % 2 == 0 ? v1::PROMPT_ROUTING : v1::SEGMENT_ROUTING);
    return request;
  }
  void Begin(uint64_t id, const v1::GenerateRequest& request) {
    v1::ServingCommand command;
    command.set_id(id);
    *command.mutable_generate() = request;
    turns_.Take(command);
  }
  void Cancel(uint64_t id) {
    v1::ServingCommand command;
    command.set_id(id);
    command.set_cancel(true);
    turns_.Take(command);
  }
  void Finish() {
    while (!turns_.idle()) turns_.Turn();
  }
  void Record(const v1::ServingReport& report) {
    texts_[report.id()] += report.event().text();
    num_tokens_[report.id()] = report.event().num_tokens();
    if (report.event().done()) ended_.push_back(report.id());
    if (report.has_error()) errors_[report.id()] = report.error().message();
  }

  static std::string Alone(const v1::GenerateRequest& request) {
    std::string text;
    const absl::Status status =
        Generate(request, [&](const v1::GenerateEvent& event) { text += event.text(); });
    EXPECT_TRUE(status.ok()) << status;
    return text;
  }

  static std::filesystem::path* run_;
  LoadedModel loaded_;
  std::map<uint64_t, std::string> texts_, errors_;
  std::map<uint64_t, int32_t> num_tokens_;
  std::vector<uint64_t> ended_;
  GenerationTurns turns_;
};

std::filesystem::path* GenerationTurnsTest::run_ = nullptr;

TEST_F(GenerationTurnsTest, ATextDoesNotDependOnOtherTexts) {
  for (uint64_t id = 1; id <= 9; ++id) {
    Begin(id, Request(id, std::string(id, 'a')));
    turns_.Turn();
  }
  Finish();
  for (uint64_t id = 1; id <= 9; ++id) {
    EXPECT_EQ(texts_[id], Alone(Request(id, std::string(id, 'a')))) << id;
    EXPECT_FALSE(texts_[id].empty());
  }
}

// A round reads one prompt, so texts in progress wait no longer than that for new ones.
TEST_F(GenerationTurnsTest, TextsEndInTheOrderInWhichTheyBegan) {
  std::vector<uint64_t> expected;
  for (uint64_t id = 1; id <= 6; ++id) {
    v1::GenerateRequest request = Request(2);
    request.set_max_tokens(8);
    Begin(id, request);
    if (id == 1) turns_.Turn();
    expected.push_back(id);
  }
  // The first text needs seven more tokens, and each round reads one of the other five prompts:
  // until it ends, 5 prompts are read and 6 + 5 + 4 + 3 + 2 tokens are generated for them.
  while (ended_.empty()) turns_.Turn();
  for (uint64_t id = 2; id <= 6; ++id) EXPECT_LT(num_tokens_[id], 8) << id;
  Finish();
  EXPECT_EQ(ended_, expected);
}

TEST_F(GenerationTurnsTest, CancelledTextsEndAndErrorsBelongToTheirRequest) {
  Begin(1, Request(1));
  Begin(2, Request(2));
  Begin(3, Request(3, std::string(400, 'x')));
  v1::GenerateRequest cold = Request(5);
  cold.set_temperature(INFINITY);
  Begin(5, cold);
  EXPECT_NE(errors_[5].find("temperature"), std::string::npos) << errors_[5];
  turns_.Turn();
  EXPECT_TRUE(errors_[3].empty());  // a prompt is validated in its turn
  Cancel(1);                        // in progress
  Cancel(2);                        // not yet begun
  Cancel(7);                        // unknown
  turns_.Turn();
  EXPECT_NE(errors_[3].find("expected at most 32"), std::string::npos) << errors_[3];
  EXPECT_TRUE(turns_.idle());
  Begin(4, Request(4));
  Finish();
  EXPECT_EQ(texts_[4], Alone(Request(4)));
  EXPECT_EQ(ended_, std::vector<uint64_t>{4});
}

// In one step, greedily, so that the last digits of the logits do not matter.
TEST_F(GenerationTurnsTest, TogetherGivesTheSameTextsAndSeparateErrors) {
  GenerationTurns together(
      loaded_, [this](const v1::ServingReport& report) { Record(report); }, /*together=*/true);
  const auto request = [](uint64_t id) {
    v1::GenerateRequest asked = Request(id, std::string(id, 'a'));
    asked.set_temperature(0);
    asked.set_max_tokens(static_cast<int32_t>(4 + 3 * id));
    if (id == 3) asked.set_prompt(std::string(400, 'x'));  // does not fit
    return asked;
  };
  for (uint64_t id = 1; id <= 6; ++id) {
    v1::ServingCommand command;
    command.set_id(id);
    *command.mutable_generate() = request(id);
    together.Take(command);
    if (id % 2 == 0) together.Turn();
  }
  v1::ServingCommand cancel;
  cancel.set_id(5);
  cancel.set_cancel(true);
  together.Take(cancel);
  while (!together.idle()) together.Turn();
  for (const uint64_t id : {1, 2, 4, 6}) EXPECT_EQ(texts_[id], Alone(request(id))) << id;
  EXPECT_NE(errors_[3].find("expected at most 32"), std::string::npos) << errors_[3];
  EXPECT_EQ(errors_.size(), 1u);
  EXPECT_EQ(ended_.size(), 4u);
}

Weights WeightsOf(const std::vector<ExpertMixture>& mixtures) {
  Weights weights;
  for (const ExpertMixture& mixture : mixtures) {
    weights.emplace_back(mixture.gate_up.begin(), mixture.gate_up.end());
  }
  return weights;
}

// Steps the decoder directly, token by token, and records the mixtures whenever they change.
std::vector<Weights> MixturesOneByOne(LoadedModel& loaded, const v1::GenerateRequest& request) {
  const auto decoder = loaded.model->NewDecoder(
      request.routing() == v1::SEGMENT_ROUTING ? MergeMode::kSegment : MergeMode::kPrompt);
  std::vector<float> logits =
      *decoder->Prefill(PromptTokens(loaded.model->config(), *loaded.tokenizer, request.prompt()));
  std::vector<Weights> changes;
  for (int i = 0; i < request.max_tokens(); ++i) {
    const Weights now = WeightsOf(decoder->Mixtures());
    if (changes.empty() || changes.back() != now) changes.push_back(now);
    const uint64_t bits = Mix64(request.seed(), static_cast<uint64_t>(i));
    const int32_t token = *SampleToken(logits, request.temperature(), 1, UnitInterval(bits));
    if (token == loaded.tokenizer->eos_id() || i + 1 == request.max_tokens()) break;
    logits = *decoder->Step(token);
  }
  return changes;
}

TEST_F(GenerationTurnsTest, RoutingIsReportedWheneverItChanges) {
  for (const uint64_t seed : {2, 3}) {
    v1::GenerateRequest request = Request(seed);
    request.set_want_routing(true);
    std::vector<Weights> told;
    ASSERT_TRUE(Generate(request, [&](const v1::GenerateEvent& event) {
                  if (event.routing_size() == 0) return;
                  Weights weights;
                  for (const auto& layer : event.routing()) {
                    EXPECT_GE(layer.before_token(), event.num_tokens());
                    EXPECT_EQ(layer.layer(), static_cast<int>(weights.size()));
                    weights.emplace_back(layer.weights().begin(), layer.weights().end());
                  }
                  told.push_back(weights);
                }).ok());
    EXPECT_EQ(told, MixturesOneByOne(loaded_, request)) << seed;
    if (request.routing() == v1::PROMPT_ROUTING) {
      EXPECT_EQ(told.size(), 1u);
    } else {
      EXPECT_GT(told.size(), 1u);
    }
    EXPECT_EQ(told.at(0).at(0).size(), 4u);
  }
}

}  // namespace generation_turns_test
}  // namespace braid

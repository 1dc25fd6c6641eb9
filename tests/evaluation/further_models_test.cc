// Several models in one evaluation of tasks, from checkpoints on disk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "braid/v1/analysis.pb.h"
#include "evaluation/evaluate_tasks.h"
#include "evaluation/expert_activity.h"
#include "formats/contamination.h"
#include "inference/generation.h"
#include "runs/conversion_record.h"
#include "runs/run_directory.h"
#include "runs/run_spec.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"
#include "tests/evaluation/task_models_fixture.h"
#include "tests/evaluation/tasks/sample_tasks.h"
#include "tests/trainer/tiny_run.h"
#include "tests/trainer/tiny_text_run.h"

namespace braid {
namespace further_models_test {

class FurtherModelsTest : public TaskModelsTest {};

TEST_F(FurtherModelsTest, AreComparedWithTheFirst) {
  ASSERT_OK_AND_ASSIGN(const v1::TasksResult result, Evaluate());
  const std::string first = request_.model(), second = request_.further_models(0);
  EXPECT_EQ(result.further_sources_size(), 1);
  ASSERT_EQ(result.results_size(), 2 + 4);
  ASSERT_EQ(result.comparisons_size(), 2 * (1 + 2));
  for (const v1::TaskComparison& comparison : result.comparisons()) {
    EXPECT_EQ(comparison.baseline(), first);
    EXPECT_EQ(comparison.model(), second);
    double before = 0, after = 0;
    for (const v1::TaskResult& one : result.results()) {
      if (one.task() != comparison.task()) continue;
      const double value = MetricOf(one, comparison.metric()).value();
      if (one.model() == first) before = value;
      if (one.model() == second && one.routing() == comparison.routing()) after = value;
    }
    EXPECT_NEAR(comparison.difference(), after - before, 1e-12);
    if (comparison.metric() != "acc") continue;
    EXPECT_LE(comparison.interval().low(), comparison.difference());
    EXPECT_GE(comparison.interval().high(), comparison.difference());
  }
  // Answers are stored as those of one model are.
  request_.clear_further_models();
  ASSERT_OK_AND_ASSIGN(const v1::TasksResult alone, Evaluate());
  EXPECT_EQ(alone.comparisons_size(), 0);
  EXPECT_EQ(alone.results(0).model(), "");
  EXPECT_EQ(alone.results(0).metrics(0).value(), result.results(0).metrics(0).value());
}

// Their answers are stored under names that depend on the length of the context.
TEST_F(FurtherModelsTest, WrittenAnswersAreCompared) {
  request_.clear_tasks();
  request_.add_tasks()->set_name("mawps");
  ASSERT_OK_AND_ASSIGN(const v1::TasksResult result, Evaluate());
  EXPECT_EQ(result.results_size(), 1 + 2);
  EXPECT_EQ(result.comparisons_size(), 2 * result.results(0).metrics_size());
}

TEST_F(FurtherModelsTest, ARoutingSeedIsForTheModelsWhoseGateTakesOne) {
  request_.set_further_models(
      0, NewTextRun(dataset_, 4, v1::TOKEN_CHOICE, v1::TokenRouting::RANDOM).root().string());
  request_.mutable_tasks()->RemoveLast();
  request_.set_want_examples(true);
  const auto loss_with = [&](uint64_t seed) {
    request_.set_routing_seed(seed);
    const auto result = Evaluate();
    EXPECT_OK(result);
    if (!result.ok() || result->results_size() != 2) return std::vector<double>();
    EXPECT_EQ(result->results(1).active_experts(), 2);
    return std::vector<double>{result->results(0).examples(0).answer_loss(),
                               result->results(1).examples(0).answer_loss()};
  };
  const auto seven = loss_with(7), eight = loss_with(8);
  ASSERT_EQ(seven.size() + eight.size(), 4u);
  EXPECT_EQ(seven[0], eight[0]) << "dense";
  EXPECT_NE(seven[1], eight[1]);
  EXPECT_EQ(loss_with(7), seven);
  request_.clear_further_models();
  EXPECT_FAILS(Evaluate().status(), absl::StatusCode::kInvalidArgument,
               "routing_seed: got 7, but the router is DENSE");
}

// A dense model is compared with one whose tokens use the number of experts that is asked for.
TEST_F(FurtherModelsTest, ActiveExpertsAreForTheModelsWhoseTokensChoose) {
  const std::string chosen = NewTextRun(dataset_, 4, v1::TOKEN_CHOICE).root().string();
  request_.set_further_models(0, chosen);
  request_.mutable_tasks()->RemoveLast();
  request_.add_active_experts(3);
  ASSERT_OK_AND_ASSIGN(const v1::TasksResult result, Evaluate());
  ASSERT_EQ(result.results_size(), 2);
  EXPECT_EQ(result.results(0).active_experts(), 0);
  EXPECT_EQ(result.results(1).active_experts(), 3);
  EXPECT_FALSE(result.results(1).varying_experts());
  EXPECT_GT(result.comparisons_size(), 0);
  request_.set_active_experts(0, 9);
  EXPECT_FAILS(Evaluate().status(), absl::StatusCode::kInvalidArgument,
               chosen + ": active_experts[0]: got 9, expected 1 to 4");
  request_.clear_further_models();
  EXPECT_FAILS(Evaluate().status(), absl::StatusCode::kInvalidArgument,
               request_.model() + ": active_experts[0]: got 9, but the router is DENSE");
}

TEST_F(FurtherModelsTest, GenerationRefusesActiveExpertsWhereTokensChooseNone) {
  for (const std::string& model : {request_.model(), request_.further_models(0)}) {
    v1::GenerateRequest request;
    request.set_model(model);
    request.set_prompt("a film is");
    request.set_max_tokens(2);
    request.set_num_threads(1);
    EXPECT_OK(Generate(request, [](const v1::GenerateEvent&) {}));
    request.set_active_experts(77);
    EXPECT_FAILS(Generate(request, [](const v1::GenerateEvent&) {}),
                 absl::StatusCode::kInvalidArgument, "active_experts: got 77, but the router is",
                 "expected TOKEN_CHOICE");
  }
}

// The setting of the model is at fault, not the example that is asked first.
TEST_F(FurtherModelsTest, LayersThatABatchChoosesAreRefusedByTheNameOfTheModel) {
  v1::RunSpec spec = TinyDenseSpec(dataset_, 2);
  spec.mutable_model()->mutable_layer_mixing()->set_alpha(0.7);
  spec.mutable_model()->mutable_layer_mixing()->set_decision(v1::LayerMixing::BATCH_MODE);
  spec.mutable_batch()->set_micro_batch_size(spec.batch().global_batch_size());
  ASSERT_OK_AND_ASSIGN(spec, ResolveRunSpec(spec));
  const RunDirectory run(NewDirectory("mixed"));
  ASSERT_OK(run.WriteSpec(spec));
  ASSERT_OK(TrainAlone(run, spec));
  request_.clear_further_models();
  request_.set_model(run.root().string());
  EXPECT_FAILS(Evaluate().status(), absl::StatusCode::kInvalidArgument,
               run.root().string() + ": model.layer_mixing.decision: got BATCH_MODE");
}

TEST_F(FurtherModelsTest, ADirectoryOfTasksThatIsMissingIsNamed) {
  request_.set_data_dir((scratch_ / "nosuch").string());
  for (const bool named : {true, false}) {
    if (!named) request_.clear_tasks();
    EXPECT_FAILS(Evaluate().status(), absl::StatusCode::kNotFound, "nosuch does not exist");
  }
  request_.set_data_dir((dataset_ / "tokenizer.model").string());
  EXPECT_FAILS(Evaluate().status(), absl::StatusCode::kNotFound, "model is not a directory");
}

// Answers with other noise are stored beside those without.
TEST_F(FurtherModelsTest, EmbeddingNoiseBelongsToTheStoredAnswers) {
  request_.clear_further_models();
  request_.mutable_tasks()->RemoveLast();
  request_.set_want_examples(true);
  const auto loss_with = [&](double noise, uint64_t seed) {
    request_.set_embedding_noise(noise);
    request_.set_noise_seed(seed);
    const auto result = Evaluate();
    EXPECT_OK(result);
    return result.ok() ? result->results(0).examples(0).answer_loss() : 0;
  };
  const double plain = loss_with(0, 7), seven = loss_with(0.5, 7), eight = loss_with(0.5, 8);
  EXPECT_NE(seven, plain);
  EXPECT_NE(seven, eight);
  EXPECT_EQ(loss_with(0, 8), plain);
  EXPECT_EQ(loss_with(0.5, 7), seven);
}

// A seed gives the same text and the same use of experts each time.
TEST_F(FurtherModelsTest, ARoutingSeedIsUsedByGenerationAndAnalysis) {
  const std::string run =
      NewTextRun(dataset_, 4, v1::TOKEN_CHOICE, v1::TokenRouting::RANDOM).root().string();
  const auto text_with = [&](uint64_t seed) {
    v1::GenerateRequest request;
    request.set_model(run);
    request.set_prompt("a film is");
    request.set_max_tokens(16);
    request.set_num_threads(1);
    request.set_routing_seed(seed);
    std::string text;
    EXPECT_OK(Generate(request, [&](const v1::GenerateEvent& event) { text += event.text(); }));
    return text;
  };
  const auto activity_with = [&](uint64_t seed) {
    v1::AnalyzeExpertsRequest request;
    request.set_model(run);
    request.set_num_threads(1);
    request.set_routing_seed(seed);
    std::string activity;
    EXPECT_OK(AnalyzeExperts(request, [&](const v1::AnalyzeExpertsEvent& event) {
      if (event.has_result()) activity = event.result().SerializeAsString();
    }));
    return activity;
  };
  EXPECT_EQ(text_with(7), text_with(7));
  EXPECT_NE(text_with(7), text_with(8));
  EXPECT_FALSE(activity_with(7).empty());
  EXPECT_EQ(activity_with(7), activity_with(7));
  EXPECT_NE(activity_with(7), activity_with(8));
}

// One model was trained on a share of the examples, which all models of the request leave out.
TEST_F(FurtherModelsTest, ExamplesThatOneModelWasTrainedOnAreLeftOutForAll) {
  std::filesystem::create_directories(scratch_ / "amazon");
  std::string lines;
  for (int i = 0; i < 60; ++i) {
    lines += std::string(i % 2 == 0 ? "1" : "2") + ",thing " + std::to_string(i) + ",fine\n";
  }
  PutFile(scratch_ / "amazon" / "test.csv", lines);
  request_.set_data_dir(scratch_.path().string());
  request_.clear_tasks();
  request_.add_tasks()->set_name("amazon");
  request_.clear_further_models();
  ASSERT_OK_AND_ASSIGN(const v1::TasksResult before, Evaluate());
  EXPECT_EQ(before.results(0).num_examples(), 60);
  EXPECT_TRUE(before.skipped().empty());
  const std::filesystem::path tuned_on = NewTextDataset(tokenizer_, 128);
  const std::string tuned = NewTextRun(tuned_on, 1).root().string();
  PutFile(tuned_on / "supervised.json", R"({"task_shares": {"amazon": 0.75}})");
  request_.add_further_models(tuned);
  ASSERT_OK_AND_ASSIGN(const v1::TasksResult result, Evaluate());
  ASSERT_EQ(result.results_size(), 2);
  const int64_t kept = result.results(0).num_examples();
  EXPECT_GT(kept, 0);
  EXPECT_LT(kept, 30);
  EXPECT_EQ(result.results(1).num_examples(), kept);
  ASSERT_EQ(result.comparisons_size(), 1);
  EXPECT_EQ(result.comparisons(0).num_examples(), kept);
  EXPECT_EQ(result.skipped().at("amazon"), "amazon: " + std::to_string(60 - kept) +
                                               " of 60 examples, because " + tuned +
                                               " was fine-tuned on this share of them");
  // Alone, the first model answers all again, from the answers that it stored.
  request_.clear_further_models();
  ASSERT_OK_AND_ASSIGN(const v1::TasksResult after, Evaluate());
  EXPECT_EQ(after.results(0).SerializeAsString(), before.results(0).SerializeAsString());
  // A run that starts from the tuned one has seen the same examples.
  request_.set_model(NewTextRun(NewTextDataset(tokenizer_, 128), 1).root().string());
  ASSERT_OK_AND_ASSIGN(v1::RunSpec spec, RunDirectory(request_.model()).ReadSpec());
  spec.set_init_from(tuned);
  ASSERT_OK(RunDirectory(request_.model()).WriteSpec(spec));
  ASSERT_OK_AND_ASSIGN(const v1::TasksResult descendant, Evaluate());
  EXPECT_EQ(descendant.results(0).num_examples(), kept);
  // So has what it was converted into.
  v1::Conversion record;
  record.mutable_source()->set_checkpoint(tuned + "/checkpoints/step-00000002");
  const std::filesystem::path converted = NewDirectory("converted") / "model";
  std::filesystem::copy(record.source().checkpoint(), converted,
                        std::filesystem::copy_options::recursive);
  ASSERT_OK(WriteConversion(record, converted));
  request_.set_model(converted.string());
  request_.set_answers_dir(NewDirectory("answers").string());
  ASSERT_OK_AND_ASSIGN(const v1::TasksResult of_converted, Evaluate());
  EXPECT_EQ(of_converted.results(0).num_examples(), kept);
  PutFile(tuned_on / "supervised.json", R"({"task_shares": {"amazon": "most"}})");
  EXPECT_FAILS(Evaluate().status(), absl::StatusCode::kDataLoss, "task_shares.amazon");
}

TEST_F(FurtherModelsTest, CleanExamplesShareNothingWithAnyDatasetOfAMixture) {
  request_.clear_further_models();
  request_.mutable_tasks()->RemoveLast();
  const std::filesystem::path other = NewTextDataset(tokenizer_, 128);
  ASSERT_OK_AND_ASSIGN(v1::RunSpec spec, RunDirectory(request_.model()).ReadSpec());
  for (const auto& each : {dataset_, other}) spec.add_datasets()->set_dataset(each.string());
  ASSERT_OK(RunDirectory(request_.model()).WriteSpec(spec));
  ASSERT_OK_AND_ASSIGN(const FileSummary file, SummarizeFile(SampleDirectory() / "sst2/dev.tsv"));
  Contamination compared;
  compared.files = {{"dev.tsv", file.bytes, file.crc32c}};
  for (const auto& each : {dataset_, other}) {
    EXPECT_FALSE(Evaluate()->results(0).has_num_clean_examples());
    ASSERT_OK(WriteContamination(each, compared).status());
  }
  EXPECT_TRUE(Evaluate()->results(0).has_num_clean_examples());
  // What a model before it was trained on was not compared.
  spec.set_init_from("../imported");
  ASSERT_OK(RunDirectory(request_.model()).WriteSpec(spec));
  EXPECT_FALSE(Evaluate()->results(0).has_num_clean_examples());
}

TEST_F(FurtherModelsTest, BadRequestsAreNamed) {
  request_.add_further_models(request_.model());
  EXPECT_FAILS(Evaluate().status(), absl::StatusCode::kInvalidArgument, "further_models: got ",
               "twice");
  request_.mutable_further_models()->RemoveLast();
  for (const int active : {1, 2}) request_.add_active_experts(active);
  EXPECT_FAILS(Evaluate().status(), absl::StatusCode::kInvalidArgument, "active_experts: got 2",
               "further_models");
  request_.clear_active_experts();
  request_.set_further_models(0, "/nowhere/at/all");
  EXPECT_FAILS(Evaluate().status(), absl::StatusCode::kNotFound, "/nowhere/at/all");
}

}  // namespace further_models_test
}  // namespace braid
